"""activemq.xml but for its policyEntries: what becomes what, what is noted, what keeps a file from being used."""

from __future__ import annotations

import pytest

from config.loader import merged
from config.matching import QUEUE, TOPIC
from config.model import Endpoint, NamedDestination, VirtualTopic
from config.options import Option
from config.permissions import PermissionMap
from config.scram import Verifier
from config.sources import activemq_options as options
from config.sources.detect import read
from config.sources.document import Document
from tests.support.config.documents import activemq, notes, plugins, policies, problems, settings

STOCK = """<beans>
  <bean class="org.springframework.beans.factory.config.PropertyPlaceholderConfigurer"/>
  <broker brokerName="localhost" dataDirectory="${activemq.data}" schedulerSupport="true">
    <destinationPolicy>
      <policyMap>
        <policyEntries>
          <policyEntry topic=">">
            <pendingMessageLimitStrategy>
              <constantPendingMessageLimitStrategy limit="1000"/>
            </pendingMessageLimitStrategy>
          </policyEntry>
        </policyEntries>
      </policyMap>
    </destinationPolicy>
    <managementContext><managementContext createConnector="false"/></managementContext>
    <persistenceAdapter><kahaDB directory="${activemq.data}/kahadb"/></persistenceAdapter>
    <systemUsage>
      <systemUsage>
        <memoryUsage><memoryUsage percentOfJvmHeap="70"/></memoryUsage>
        <storeUsage><storeUsage limit="100 gb"/></storeUsage>
        <tempUsage><tempUsage limit="50 gb"/></tempUsage>
      </systemUsage>
    </systemUsage>
    <transportConnectors>
      <transportConnector name="openwire" uri="tcp://127.0.0.1:61616?maximumConnections=1000"/>
      <transportConnector name="stomp" uri="stomp://127.0.0.1:61613?maximumConnections=1000&amp;wireFormat.maxFrameSize=104857600"/>
      <transportConnector name="mqtt" uri="mqtt://127.0.0.1:1883"/>
    </transportConnectors>
    <shutdownHooks><bean class="org.apache.activemq.hooks.SpringContextHook"/></shutdownHooks>
  </broker>
  <import resource="jetty.xml"/>
</beans>
"""


def test_a_file_as_it_is_shipped_can_be_used() -> None:
    document = read("activemq.xml", STOCK.encode())
    assert problems(document) == []
    pending = settings(document, "prices", TOPIC).pending
    assert (pending.strategy, pending.limit) == ("constant", 1000)
    assert settings(document, "orders").pending.strategy == "none"
    config = merged([document])
    assert str(config.listeners.stomp) == "tcp://127.0.0.1:61613"
    assert (config.stomp.limits.connections, config.stomp.limits.body_bytes) == (1000, 104857600)
    assert config.sources["listeners.stomp"] == "activemq.xml:26"
    told = notes(document)
    assert str(config.listeners.openwire) == "tcp://127.0.0.1:61616"
    assert any(note.startswith("activemq.xml:27: transportConnector: 'mqtt://") for note in told)
    assert any(note.startswith("activemq.xml:16: broker: persistenceAdapter has no effect") for note in told)
    assert "activemq.xml:2: bean: of Spring, which is not run here" in told
    assert "activemq.xml:31: import: of Spring, which is not run here" in told
    assert any("dataDirectory has no effect" in note for note in told)


@pytest.mark.parametrize(
    "attribute",
    [
        "sendDuplicateFromStoreToDLQ",
        "advancedNetworkStatisticsEnabled",
        "advancedMessageStatisticsEnabled",
        "allowTempDestinationStealing",
    ],
)
def test_newer_attributes_of_a_policy_are_noted(attribute: str) -> None:
    document = policies(f"<policyEntry queue='>' {attribute}='true'/>")
    assert problems(document) == []
    (note,) = notes(document)
    assert f"policyEntry: {attribute} has no effect" in note


def test_redelivery_of_the_plugin() -> None:
    document = plugins(
        "<redeliveryPlugin fallbackToDeadLetter='true'><redeliveryPolicyMap><redeliveryPolicyMap>"
        "<redeliveryPolicyEntries><redeliveryPolicy queue='a.>' maximumRedeliveries='2' redeliveryDelay='3000'/>"
        "</redeliveryPolicyEntries><defaultEntry><redeliveryPolicy maximumRedeliveries='9' "
        "useExponentialBackOff='true'/>"
        "</defaultEntry></redeliveryPolicyMap></redeliveryPolicyMap></redeliveryPlugin>"
    )
    one, other = settings(document, "a.b").redelivery, settings(document, "b").redelivery
    assert (one.maximum_redeliveries, one.redelivery_delay_ms, one.use_exponential_back_off) == (2, 3000, False)
    assert (other.maximum_redeliveries, other.redelivery_delay_ms, other.use_exponential_back_off) == (9, 1000, True)
    assert one.delays_rollback
    assert not other.delays_rollback


def test_users_become_verifiers() -> None:
    document = plugins(
        "<simpleAuthenticationPlugin><users>"
        "<authenticationUser username='system' password='manager' groups='users, admins'/>"
        "</users></simpleAuthenticationPlugin>"
    )
    config = merged([document])
    assert [Verifier.parse(text).proves("manager") for text in config.users["system"]] == [True, True]
    assert config.groups["system"] == frozenset({"users", "admins"})
    assert config.sources["users.system"] == "activemq.xml:3"
    assert "manager" not in repr(config)
    assert "manager" not in repr(document)


def test_permissions_of_all_matching_entries_add_up() -> None:
    document = plugins(
        "<authorizationPlugin><map><authorizationMap><authorizationEntries>"
        "<authorizationEntry queue='>' read='admins' write='admins' admin='admins'/>"
        "<authorizationEntry queue='USERS.>' read='users' write='users'/>"
        "<authorizationEntry topic='ActiveMQ.Advisory.>' read='*' write='*' admin='*'/>"
        "</authorizationEntries></authorizationMap></map></authorizationPlugin>"
    )
    assert problems(document) == []
    permissions = PermissionMap(document.permissions)
    assert permissions.groups_for("read", QUEUE, "USERS.a") == frozenset({"admins", "users"})
    assert permissions.groups_for("create", QUEUE, "USERS.a") == frozenset({"admins"})
    assert permissions.groups_for("delete", QUEUE, "b") == frozenset({"admins"})
    assert permissions.groups_for("read", TOPIC, "a") == frozenset()
    assert permissions.allows("write", TOPIC, "ActiveMQ.Advisory.Connection", frozenset())


@pytest.mark.parametrize(
    ("inner", "said"),
    [
        ("<map><cachedLDAPAuthorizationMap/></map>", "cachedLDAPAuthorizationMap: cannot be enforced here"),
        ("<map><authorizationMap groupClass='x'/></map>", "authorizationMap: cannot be enforced here"),
        (
            "<map><authorizationMap><tempDestinationAuthorizationEntry>"
            "<tempDestinationAuthorizationEntry read='a' write='a' admin='a'/></tempDestinationAuthorizationEntry>"
            "</authorizationMap></map>",
            "tempDestinationAuthorizationEntry: cannot be enforced: whoever may log in",
        ),
        (
            "<map><authorizationMap><authorizationEntries><authorizationEntry read='a'/></authorizationEntries>"
            "</authorizationMap></map>",
            "names neither a queue nor a topic, so it cannot be enforced",
        ),
        (
            "<map><authorizationMap><authorizationEntries><authorizationEntry tempQueue='true' read='a'/>"
            "</authorizationEntries></authorizationMap></map>",
            "tempQueue cannot be enforced; allowed are queue, topic, read, write, admin",
        ),
        (
            "<map><authorizationMap><authorizationEntries><authorizationEntry queue='a' read='${x}'/>"
            "</authorizationEntries></authorizationMap></map>",
            "read: '${x}' is a placeholder",
        ),
        ("", "has no authorizationEntry that could be enforced"),
    ],
)
def test_an_acl_that_cannot_be_enforced_refuses_the_file(inner: str, said: str) -> None:
    document = plugins(f"<authorizationPlugin>{inner}</authorizationPlugin>")
    assert any(said in problem for problem in problems(document))


def test_temporary_destinations_for_everybody_are_what_is_here() -> None:
    document = plugins(
        "<authorizationPlugin><map><authorizationMap><authorizationEntries><authorizationEntry queue='>' read='a'/>"
        "</authorizationEntries><tempDestinationAuthorizationEntry><tempDestinationAuthorizationEntry read='*' "
        "write='*' "
        "admin='*'/></tempDestinationAuthorizationEntry></authorizationMap></map></authorizationPlugin>"
    )
    assert problems(document) == []


@pytest.mark.parametrize("name", ["jaasAuthenticationPlugin", "jaasCertificateAuthenticationPlugin"])
def test_users_that_cannot_be_taken_over_refuse_the_file(name: str) -> None:
    (problem,) = problems(plugins(f"<{name} configuration='activemq'/>"))
    assert "without them everybody could log in" in problem


@pytest.mark.parametrize(
    "attributes",
    [
        "username='${user}' password='secret'",
        "username='a' password='${secret}'",
        "username='a' password='ENC(secret)'",
        "username='a' password=''",
        "username='a:b' password='secret'",
        "username='a' password='secret' role='x'",
    ],
)
def test_a_user_that_cannot_be_taken_refuses_the_file(attributes: str) -> None:
    document = plugins(
        f"<simpleAuthenticationPlugin><users><authenticationUser {attributes}/></users></simpleAuthenticationPlugin>"
    )
    (problem,) = problems(document)
    assert problem.startswith("activemq.xml:3: ")
    assert "secret" not in problem


def test_virtual_topics_can_be_switched_off_but_for_those_of_the_file() -> None:
    def read_xml(text: str) -> Document:
        return read("activemq.xml", text.encode())

    assert read_xml("<broker useVirtualTopics='false'/>").virtual_topics == []
    assert read_xml("<broker useVirtualTopics='true'/>").virtual_topics is None
    listed = (
        "<destinationInterceptors><virtualDestinationInterceptor><virtualDestinations><virtualTopic name='V.>'/>"
        "</virtualDestinations></virtualDestinationInterceptor></destinationInterceptors>"
    )
    assert read_xml(f"<broker useVirtualTopics='false'>{listed}</broker>").virtual_topics == [VirtualTopic("V.>")]


def test_destinations_and_virtual_topics() -> None:
    document = activemq(
        "<destinations><queue physicalName='a'/><topic physicalName='b'/></destinations>"
        "<destinationInterceptors><virtualDestinationInterceptor><virtualDestinations>"
        "<virtualTopic name='V.>' prefix='C.*.' selectorAware='true' local='true'/><compositeQueue name='x'/>"
        "</virtualDestinations></virtualDestinationInterceptor></destinationInterceptors>"
    )
    assert problems(document) == []
    assert document.destinations == [NamedDestination(QUEUE, "a"), NamedDestination(TOPIC, "b")]
    assert document.virtual_topics == [VirtualTopic("V.>", "C.*.", True)]
    assert any("compositeQueue: has no effect" in note for note in notes(document))


def test_limits_of_the_system() -> None:
    document = activemq(
        "<systemUsage><systemUsage><memoryUsage><memoryUsage limit='512 mb'/></memoryUsage>"
        "<storeUsage><storeUsage percentLimit='80' limit='1gb'/></storeUsage></systemUsage></systemUsage>"
    )
    config = merged([document])
    assert (config.memory_limit_bytes, config.limits.max_disk_usage_percent) == (512 * 1024**2, 80)
    assert config.sources["memory-limit-bytes"] == "activemq.xml:3"
    assert any("storeUsage: limit has no effect: the disk is the limit" in note for note in notes(document))


def test_plugins_for_every_destination() -> None:
    document = plugins(
        "<timeStampingBrokerPlugin zeroExpirationOverride='60000'/><discardingDLQBrokerPlugin dropAll='true'/>"
    )
    found = settings(document, "a")
    assert found.expiry.effective_ms(0, 1000) == 61000
    assert found.dead_letter_destination(False, "a", None) is None


def test_a_ceiling_bounds_every_time_to_live_and_gives_none() -> None:
    both = settings(
        plugins("<timeStampingBrokerPlugin zeroExpirationOverride='60000' ttlCeiling='50000'/>"), "a"
    ).expiry
    assert [both.effective_ms(asked, 1_000) for asked in (0, 41_000, 99_000)] == [51_000, 41_000, 51_000]
    alone = settings(plugins("<timeStampingBrokerPlugin ttlCeiling='50000'/>"), "a").expiry
    assert [alone.effective_ms(asked, 1_000) for asked in (0, 41_000, 99_000)] == [0, 41_000, 51_000]


def test_zero_overrides_no_expiry_and_is_no_ceiling() -> None:
    found = settings(plugins("<timeStampingBrokerPlugin zeroExpirationOverride='0' ttlCeiling='0'/>"), "a").expiry
    assert [found.effective_ms(asked, 1_000) for asked in (0, 99_000)] == [0, 99_000]


@pytest.mark.parametrize("strategy", ["sharedDeadLetterStrategy", "individualDeadLetterStrategy"])
@pytest.mark.parametrize("is_plugin_first", [True, False])
def test_a_plugin_that_drops_all_dead_letters_overrides_every_entry(strategy: str, is_plugin_first: bool) -> None:
    plugin = "<plugins><discardingDLQBrokerPlugin dropAll='true'/></plugins>"
    entry = f"<policyEntry queue='a.>'><deadLetterStrategy><{strategy}/></deadLetterStrategy></policyEntry>"
    policies = f"<destinationPolicy><policyMap><policyEntries>{entry}</policyEntries></policyMap></destinationPolicy>"
    document = activemq(plugin + policies if is_plugin_first else policies + plugin)
    for name in ("a.b", "b"):
        assert settings(document, name).dead_letter_destination(False, name, None) is None


def test_a_plugin_that_is_not_told_to_drop_dead_letters_says_so() -> None:
    document = plugins("<discardingDLQBrokerPlugin reportInterval='5'/>")
    assert settings(document, "a").dead_letter_destination(False, "a", None) is not None
    assert any(
        "dropAll is not set: ActiveMQ drops all dead letters then, here they are kept" in one for one in notes(document)
    )


def test_no_advisories() -> None:
    text = '<broker advisorySupport="false"/>'
    assert merged([read("activemq.xml", text.encode())]).advisory_support is False


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("stomp+ssl://127.0.0.1:1", "key stores are not read; set tls.certificate and listen at tls://"),
        ("ws://127.0.0.1:1", "listeners.http takes STOMP over WebSocket"),
        ("mqtt://127.0.0.1:1", "spoken here are amqp, openwire, stomp"),
    ],
)
def test_a_connector_that_is_not_spoken_is_noted(uri: str, said: str) -> None:
    document = activemq(f"<transportConnectors><transportConnector uri='{uri}'/></transportConnectors>")
    assert document.values == {}
    assert problems(document) == []
    assert any(said in note for note in notes(document))


def test_the_first_connector_of_a_protocol_counts() -> None:
    document = activemq(
        "<transportConnectors><transportConnector uri='stomp://127.0.0.1:1'/>\n<transportConnector uri='stomp://127.0.0.1:2'/>"
        "</transportConnectors>"
    )
    assert document.values["listeners.stomp"] == Endpoint("tcp", "127.0.0.1", 1)
    assert any("line 3 says where stomp is spoken" in note for note in notes(document))


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (
            policies("<policyEntry queue='a' memoryLimt='1'/>"),
            "memoryLimt: unknown option (did you mean 'memoryLimit'?)",
        ),
        (policies("<policyEntry queue='a' memoryLimit='${x}'/>"), "memoryLimit: '${x}' is a placeholder"),
        (policies("<policyEntry queue='a' queuePrefetch='x'/>"), "queuePrefetch: 'x', allowed is an integer"),
        (policies("<policyEntry queue='a.>.b'/>"), "queue: 'a.>.b' has '>' or '#' before its end"),
        (policies("<policyEntry queue='a*'/>"), "has a wildcard within the element"),
        (policies("<policyEntry queue='${x}'/>"), "queue: '${x}' is a placeholder"),
        (policies("<policyEntry queue='a'><deadLetterStrateg/></policyEntry>"), "did you mean 'deadLetterStrategy'"),
        (
            policies("<policyEntry queue='a'><deadLetterStrategy><mine/></deadLetterStrategy></policyEntry>"),
            "deadLetterStrategy: mine: unknown option",
        ),
        (activemq("<destinationPolicies/>"), "broker: destinationPolicies: unknown option (did you mean"),
        (plugins("<simpleAuthPlugin/>"), "plugins: simpleAuthPlugin: unknown option"),
        (activemq("<messageAuthorizationPolicy/>"), "a class of your own chooses the consumers"),
        (
            activemq("<transportConnectors><transportConnector uri='stomp://127.0.0.1'/></transportConnectors>"),
            "'stomp://127.0.0.1' lacks a host or a port",
        ),
        (
            activemq("<transportConnectors><transportConnector uri='stomp://h:1?x=1'/></transportConnectors>"),
            "x: unknown option",
        ),
        (activemq("<destinations><queue physicalName='a.>'/></destinations>"), "queue: 'a.>', allowed is queue://"),
    ],
)
def test_what_cannot_be_taken_is_told_with_its_line(document: Document, said: str) -> None:
    (problem,) = problems(document)
    assert problem.startswith("activemq.xml:3: ")
    assert said in problem


def test_a_file_without_a_broker() -> None:
    (problem,) = problems(read("activemq.xml", b"<beans/>"))
    assert problem == "activemq.xml:1: beans: has 0 elements broker, allowed is one"


def test_xml_of_something_else() -> None:
    (problem,) = problems(read("p.xml", b"<html/>"))
    assert problem.startswith("p.xml:1: html: is no configuration that is read here")


def test_xml_that_is_none() -> None:
    (problem,) = problems(read("p.xml", b"<beans>"))
    assert problem.startswith("p.xml:1: not XML: ")


@pytest.mark.parametrize("option", [option for option in options.BROKER_CHILDREN.values() if option.status == "listed"])
def test_every_child_of_the_broker_without_an_effect_is_noted(option: Option) -> None:
    document = activemq(f"<{option.name}/>")
    assert f"activemq.xml:3: broker: {option.name} has no effect: {option.text}" in notes(document)


@pytest.mark.parametrize("option", [option for option in options.PLUGINS.values() if option.status != "honoured"])
def test_every_other_plugin_is_noted_or_refused(option: Option) -> None:
    document = plugins(f"<{option.name}/>")
    told = problems(document) if option.status == "refused" else notes(document)
    assert any(option.text in text for text in told)


def test_an_amqp_connector_is_a_listener_of_its_own() -> None:
    document = activemq(
        "<transportConnectors><transportConnector uri='amqp://127.0.0.1:5672?jms.prefetchPolicy.all=5'/></transportConnectors>"
    )
    config = merged([document])
    assert config.listeners.amqp is not None
    assert str(config.listeners.amqp) == "tcp://127.0.0.1:5672"
    assert config.listeners.amqp.defaults.values["prefetch.queue_prefetch"] == 5
