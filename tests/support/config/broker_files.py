"""Configurations of other brokers with some of each kind of setting."""

from __future__ import annotations

ACTIVEMQ = """<broker advisorySupport="false">
  <destinationPolicy><policyMap><policyEntries>
    <policyEntry queue=">" memoryLimit="10 mb" queuePrefetch="5"/>
    <policyEntry queue="a.>" prioritizedMessages="false">
      <deadLetterStrategy><individualDeadLetterStrategy queuePrefix="DLQ."/></deadLetterStrategy>
    </policyEntry>
    <policyEntry topic=">"><pendingMessageLimitStrategy>
      <constantPendingMessageLimitStrategy limit="1000"/></pendingMessageLimitStrategy></policyEntry>
  </policyEntries></policyMap></destinationPolicy>
  <destinations><queue physicalName="a.b"/></destinations>
  <destinationInterceptors><virtualDestinationInterceptor><virtualDestinations>
    <virtualTopic name="V.>" prefix="C.*." selectorAware="true"/>
  </virtualDestinations></virtualDestinationInterceptor></destinationInterceptors>
  <systemUsage><systemUsage sendFailIfNoSpaceAfterTimeout="3000">
    <memoryUsage><memoryUsage limit="64 mb"/></memoryUsage></systemUsage></systemUsage>
  <persistenceAdapter/>
  <plugins>
    <simpleAuthenticationPlugin><users>
      <authenticationUser username="on" password="secret" groups="admins,users"/>
    </users></simpleAuthenticationPlugin>
    <authorizationPlugin><map><authorizationMap><authorizationEntries>
      <authorizationEntry queue=">" read="admins" write="admins" admin="admins"/>
      <authorizationEntry queue="a.>" read="users" write="*"/>
    </authorizationEntries></authorizationMap></map></authorizationPlugin>
    <redeliveryPlugin><redeliveryPolicyMap><redeliveryPolicyMap><redeliveryPolicyEntries>
      <redeliveryPolicy queue="a.>" maximumRedeliveries="-1" redeliveryDelay="1500"/>
    </redeliveryPolicyEntries></redeliveryPolicyMap></redeliveryPolicyMap></redeliveryPlugin>
  </plugins>
  <transportConnectors>
    <transportConnector uri="stomp://127.0.0.1:61613?jms.prefetchPolicy.all=3&amp;maximumConnections=7"/>
  </transportConnectors>
</broker>
"""
ARTEMIS = """<configuration xmlns="urn:activemq"><core>
  <address-settings><address-setting match="#"><redelivery-delay>5000</redelivery-delay>
    <redelivery-delay-multiplier>1.5</redelivery-delay-multiplier><expiry-address>Old things</expiry-address>
  </address-setting></address-settings>
  <security-settings><security-setting match="#"><permission type="send" roles="amq"/>
    <permission type="createDurableQueue" roles="amq"/></security-setting></security-settings>
  <acceptors><acceptor name="s">tcp://127.0.0.1:1?protocols=STOMP;stompConsumerCredits=-1</acceptor></acceptors>
  <addresses><address name="a"><anycast><queue name="a" max-consumers="1"/></anycast></address></addresses>
</core></configuration>
"""
