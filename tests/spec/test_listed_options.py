"""Every option of the other brokers' files is known by its name: honoured, listed with why not, or refused with why.

What each does is tested where it is done; ``tests/unit/config/test_options.py`` asks each for its text.
Left out are options of other systems' insides that stand in no file and no URI of theirs.
"""

from __future__ import annotations

import pytest

from config import destination_options
from config.options import Option, Table
from config.sources import activemq_options, artemis_options, uri_options

# Section -> (what the names stand in, the names as they are listed there).
JMS_URI = """
alwaysSessionAsync alwaysSyncSend auditDepth auditMaximumProducerNumber checkForDuplicates clientID closeTimeout
consumerExpiryCheckEnabled copyMessageOnSend disableTimeStampsByDefault dispatchAsync nestedMapAndListEnabled
objectMessageSerializationDefered optimizeAcknowledge optimizeAcknowledgeTimeOut optimizedAckScheduledAckInterval
optimizedMessageDispatch useAsyncSend useCompression useRetroactiveConsumer warnAboutUnstartedConnectionTimeout
nonBlockingRedelivery maxInflatedDataSizeRatio
prefetchPolicy.all prefetchPolicy.queuePrefetch prefetchPolicy.queueBrowserPrefetch prefetchPolicy.topicPrefetch
prefetchPolicy.durableTopicPrefetch prefetchPolicy.optimizeDurableTopicPrefetch
prefetchPolicy.maximumPendingMessageLimit
redeliveryPolicy.maximumRedeliveries redeliveryPolicy.initialRedeliveryDelay redeliveryPolicy.redeliveryDelay
redeliveryPolicy.maximumRedeliveryDelay redeliveryPolicy.useExponentialBackOff redeliveryPolicy.backOffMultiplier
redeliveryPolicy.useCollisionAvoidance redeliveryPolicy.collisionAvoidancePercent
redeliveryPolicy.collisionAvoidanceFactor redeliveryPolicy.preDispatchCheck
blobTransferPolicy.bufferSize
"""
SUBSCRIBE_HEADERS = """
prefetchSize subscriptionName noLocal exclusive priority retroactive maximumPendingMessageLimit selector browser
optimizedAcknowledge noRangeAcks networkSubscription currentPrefetchSize clientId lastDeliveredSequenceId dispatchAsync
maximumRedeliveries initialRedeliveryDelay redeliveryDelay useExponentialBackOff backOffMultiplier
maximumRedeliveryDelay useCollisionAvoidance collisionAvoidancePercent collisionAvoidanceFactor
"""
CONSUMER_OPTIONS = (
    "dispatchAsync exclusive maximumPendingMessageLimit noLocal prefetchSize priority retroactive selector"
)
ABORT_SLOW = "maxSlowDuration maxSlowCount checkPeriod abortConnection ignoreNetworkConsumers"
POLICY_ENTRY = """
queuePrefetch topicPrefetch durableTopicPrefetch queueBrowserPrefetch usePrefetchExtension memoryLimit
producerFlowControl maxPageSize maxBrowsePageSize maxExpirePageSize expireMessagesPeriod inactiveTimeoutBeforeGC
cursorMemoryHighWaterMark storeUsageHighWaterMark minimumMessageSize optimizedDispatch lazyDispatch strictOrderDispatch
prioritizedMessages gcInactiveDestinations useCache enableAudit useConsumerPriority persistJMSRedelivered
advisoryForConsumed advisoryForDelivery advisoryForDispatched advisoryForDiscardingMessages advisoryForFastProducers
advisoryForSlowConsumers advisoryWhenFull sendAdvisoryIfNoConsumers includeBodyForAdvisory
sendFailIfNoSpace sendFailIfNoSpaceAfterTimeout
"""
DEAD_LETTER = "processExpired processNonPersistent expiration enableAudit"
INDIVIDUAL_DEAD_LETTER = f"""
queuePrefix topicPrefix queueSuffix topicSuffix useQueueForQueueMessages useQueueForTopicMessages
destinationPerDurableSubscriber {DEAD_LETTER}
"""
HORNETQ_ADDRESS = """
dead-letter-address expiry-address expiry-delay redelivery-delay redelivery-delay-multiplier max-redelivery-delay
max-delivery-attempts max-size-bytes page-size-bytes page-max-cache-size address-full-policy
message-counter-history-day-limit last-value-queue redistribution-delay send-to-dla-on-no-route slow-consumer-threshold
slow-consumer-policy slow-consumer-check-period
"""
ARTEMIS_ADDRESS = f"""
{HORNETQ_ADDRESS.replace("last-value-queue", "")}
auto-create-dead-letter-resources dead-letter-queue-prefix dead-letter-queue-suffix auto-create-expiry-resources
expiry-queue-prefix expiry-queue-suffix no-expiry min-expiry-delay max-expiry-delay
redelivery-collision-avoidance-factor max-size-messages max-size-bytes-reject-threshold disk-full-policy
page-limit-bytes page-limit-messages page-full-policy max-read-page-bytes max-read-page-messages prefetch-page-bytes
prefetch-page-messages
default-last-value-queue default-last-value-key default-non-destructive default-exclusive-queue
default-consumers-before-dispatch default-delay-before-dispatch default-group-rebalance
default-group-rebalance-pause-dispatch default-group-buckets default-group-first-key auto-create-queues
auto-delete-queues auto-delete-created-queues auto-delete-queues-delay auto-delete-queues-message-count
auto-delete-queues-skip-usage-check auto-create-addresses auto-delete-addresses auto-delete-addresses-delay
auto-delete-addresses-skip-usage-check config-delete-queues config-delete-addresses config-delete-diverts
management-browse-page-size management-message-attribute-size-limit default-purge-on-no-consumers default-max-consumers
default-queue-routing-type default-address-routing-type default-consumer-window-size default-ring-size
retroactive-message-count enable-metrics enable-ingress-timestamp id-cache-size initial-queue-buffer-size
slow-consumer-threshold-measurement-unit
"""
ARTEMIS_CORE = (
    "global-max-size global-max-size-percent-of-jvm-max-memory global-max-messages max-disk-usage min-disk-free"
)
CONNECTION_FACTORY = """
consumer-window-size producer-window-size consumer-max-rate producer-max-rate confirmation-window-size
dups-ok-batch-size transaction-batch-size block-on-acknowledge block-on-durable-send block-on-non-durable-send
pre-acknowledge auto-group xa ha failover-on-initial-connection compress-large-messages cache-large-message-client
min-large-message-size client-failure-check-period connection-ttl call-timeout call-failover-timeout retry-interval
retry-interval-multiplier max-retry-interval reconnect-attempts use-global-pools thread-pool-max-size
scheduled-thread-pool-max-size connection-load-balancing-policy-class-name client-id group-id connectors
discovery-group-ref entries
"""

ACTIVEMQ = activemq_options.tables()
CORE = artemis_options.tables()
LISTED: list[tuple[str, Table, list[str]]] = [
    ("2.4 connection URI", uri_options.OPTIONS, [f"jms.{name}" for name in JMS_URI.split()]),
    ("2.2 SUBSCRIBE", destination_options.CONSUMER, SUBSCRIBE_HEADERS.split()),
    ("2.3 destination", destination_options.CONSUMER, CONSUMER_OPTIONS.split()),
    ("2.3 producer", destination_options.PRODUCER, ["windowSize"]),
    ("2.2 acceptor", uri_options.OPTIONS, ["transport.defaultHeartBeat", "transport.hbGracePeriodMultiplier"]),
    ("2.2 frame limits", uri_options.OPTIONS, ["wireFormat.maxDataLength", "wireFormat.maxFrameSize"]),
    ("2.9 policyEntry", ACTIVEMQ["policyEntry"], POLICY_ENTRY.split()),
    ("2.5 redeliveryPlugin", ACTIVEMQ["redeliveryPlugin"], ["fallbackToDeadLetter", "sendToDlqIfMaxRetriesExceeded"]),
    ("2.7 shared", ACTIVEMQ["sharedDeadLetterStrategy"], DEAD_LETTER.split()),
    ("2.7 individual", ACTIVEMQ["individualDeadLetterStrategy"], INDIVIDUAL_DEAD_LETTER.split()),
    ("2.8 abortSlowConsumerStrategy", ACTIVEMQ["abortSlowConsumerStrategy"], ABORT_SLOW.split()),
    (
        "2.8 abortSlowAckConsumerStrategy",
        ACTIVEMQ["abortSlowAckConsumerStrategy"],
        ["maxTimeSinceLastAck", "ignoreIdleConsumers", *ABORT_SLOW.split()],
    ),
    ("2.8 constant", ACTIVEMQ["constantPendingMessageLimitStrategy"], ["limit"]),
    ("2.8 prefetchRate", ACTIVEMQ["prefetchRatePendingMessageLimitStrategy"], ["multiplier"]),
    ("2.8 uniqueProperty", ACTIVEMQ["uniquePropertyMessageEvictionStrategy"], ["propertyName"]),
    ("3.1 address-setting", CORE["address-setting (HornetQ)"], HORNETQ_ADDRESS.split()),
    ("3.4 address-setting", CORE["address-setting (Artemis)"], ARTEMIS_ADDRESS.split()),
    ("3.3 global", CORE["core"], ARTEMIS_CORE.split()),
    ("3.2 wildcard-addresses", CORE["wildcard-addresses"], ["delimiter", "any-words", "single-word"]),
    ("3.5 connection-factory", CORE["connection-factory"], CONNECTION_FACTORY.split()),
]
CASES = [pytest.param(known, name, id=f"{section}-{name}") for section, known, names in LISTED for name in names]


@pytest.mark.parametrize(("known", "name"), CASES)
def test_it_is_known_with_what_becomes_of_it(known: Table, name: str) -> None:
    option = known.get(name)
    assert isinstance(option, Option), f"{name} stands in no row"
    assert option.status in ("honoured", "listed", "refused") and len(option.text) > 3
