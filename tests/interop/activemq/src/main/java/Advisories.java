import java.util.HashSet;
import java.util.Set;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.Destination;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.advisory.AdvisorySupport;
import org.apache.activemq.advisory.DestinationSource;
import org.apache.activemq.command.ActiveMQMessage;
import org.apache.activemq.command.ActiveMQQueue;
import org.apache.activemq.command.ActiveMQTopic;
import org.apache.activemq.command.ConnectionInfo;
import org.apache.activemq.command.ConsumerInfo;
import org.apache.activemq.command.DataStructure;
import org.apache.activemq.command.ProducerId;
import org.apache.activemq.command.ProducerInfo;
import org.apache.activemq.command.RemoveInfo;

/** What the broker tells of itself, as the commands that listeners of ActiveMQ expect. */
class Advisories extends Scenarios {
    static void add() {
        ALL.put("destinationSource", () -> {
            Session session = session();
            send(session, "ow.source.before", 0, 1);
            DestinationSource source = ((ActiveMQConnection) connect("")).getDestinationSource();
            until(() -> source.getQueues().contains(new ActiveMQQueue("ow.source.before")));
            send(session, "ow.source.after", 0, 1);
            session.createConsumer(session.createTopic("ow.source.topic"));
            until(() -> source.getQueues().contains(new ActiveMQQueue("ow.source.after")));
            until(() -> source.getTopics().contains(new ActiveMQTopic("ow.source.topic")));
        });
        ALL.put("consumerAdvisories", () -> {
            Session session = session();
            Queue queue = session.createQueue("ow.watched");
            MessageConsumer listener = session.createConsumer(AdvisorySupport.getConsumerAdvisoryTopic(queue));
            MessageConsumer consumer = session().createConsumer(queue);
            ActiveMQMessage added = (ActiveMQMessage) listener.receive(LONG);
            ConsumerInfo info = (ConsumerInfo) added.getDataStructure();
            is(info.getDestination(), queue);
            is(info.getPrefetchSize(), 1000);
            is(added.getIntProperty("consumerCount"), 1);
            is(added.getJMSType(), "Advisory");
            is(added.getStringProperty("originBrokerId") != null, true);
            ConsumerInfo late = (ConsumerInfo) structure(
                session().createConsumer(AdvisorySupport.getConsumerAdvisoryTopic(queue)).receive(LONG));
            is(late.getConsumerId(), info.getConsumerId());
            consumer.close();
            ActiveMQMessage removed = (ActiveMQMessage) listener.receive(LONG);
            is(((RemoveInfo) removed.getDataStructure()).getObjectId(), info.getConsumerId());
            is(removed.getIntProperty("consumerCount"), 0);
        });
        ALL.put("producerAdvisories", () -> {
            Session session = session();
            Queue queue = session.createQueue("ow.produced");
            MessageConsumer listener = session.createConsumer(AdvisorySupport.getProducerAdvisoryTopic(queue));
            MessageProducer producer = session.createProducer(queue);
            Message added = listener.receive(LONG);
            ProducerId id = ((ProducerInfo) structure(added)).getProducerId();
            is(added.getIntProperty("producerCount"), 1);
            MessageConsumer late = session.createConsumer(AdvisorySupport.getProducerAdvisoryTopic(queue));
            is(((ProducerInfo) structure(late.receive(LONG))).getProducerId(), id);
            producer.close();
            is(((RemoveInfo) structure(listener.receive(LONG))).getObjectId(), id);
            is(((RemoveInfo) structure(late.receive(LONG))).getObjectId(), id);
        });
        ALL.put("connectionAdvisories", () -> {
            Session session = session();
            MessageConsumer listener = session.createConsumer(AdvisorySupport.getConnectionAdvisoryTopic());
            Connection other = factory("").createConnection();
            other.setClientID("ow-announced");
            started(other);
            Set<String> seen = new HashSet<>();
            while (!seen.contains("ow-announced")) {
                DataStructure found = structure(listener.receive(LONG));
                if (found instanceof ConnectionInfo) {
                    seen.add(((ConnectionInfo) found).getClientId());
                }
            }
            is(seen.contains(((ActiveMQConnection) opened.get(0)).getClientID()), true); // which was there before
        });
        ALL.put("advisoriesByWildcard", () -> {
            Session session = session();
            MessageConsumer listener = session.createConsumer(session.createTopic("ActiveMQ.Advisory.Consumer.Queue.>"));
            session().createConsumer(new ActiveMQQueue("ow.anything"));
            Message got = listener.receive(LONG);
            while (!got.getJMSDestination().equals(new ActiveMQTopic("ActiveMQ.Advisory.Consumer.Queue.ow.anything"))) {
                got = listener.receive(LONG);
            }
            is(structure(got) instanceof ConsumerInfo, true);
        });
        ALL.put("deadLetterAdvisory", () -> {
            Session session = connect("&jms.redeliveryPolicy.maximumRedeliveries=0").createSession(true, 0);
            Queue queue = session.createQueue("ow.advised");
            Session watcher = session();
            MessageConsumer listener = watcher.createConsumer(
                AdvisorySupport.getMessageDLQdAdvisoryTopic((ActiveMQQueue) queue));
            send(session, "ow.advised", 0, 1);
            session.commit();
            takes(session.createConsumer(queue), 0, 1);
            session.rollback();
            Message got = listener.receive(LONG);
            is(structure(got) instanceof ActiveMQMessage, true);
            is(((ActiveMQMessage) structure(got)).getDestination(), (Destination) queue);
            is(got.getStringProperty(AdvisorySupport.MSG_PROPERTY_MESSAGE_ID) != null, true);
        });
        ALL.put("expiredAdvisory", () -> {
            Session session = session();
            Queue queue = session.createQueue("ow.expires.advised");
            MessageConsumer listener = session.createConsumer(
                AdvisorySupport.getExpiredMessageTopic((ActiveMQQueue) queue));
            Message late = session.createTextMessage("late");
            session.createProducer(queue).send(late, DeliveryMode.PERSISTENT, 4, 1);
            until(() -> System.currentTimeMillis() > late.getJMSExpiration());
            session.createConsumer(queue);
            Message got = listener.receive(LONG);
            is(((ActiveMQMessage) structure(got)).getDestination(), (Destination) queue);
            is(got.getStringProperty(AdvisorySupport.MSG_PROPERTY_MESSAGE_ID) != null, true);
        });
    }

    static DataStructure structure(Message message) {
        return ((ActiveMQMessage) message).getDataStructure();
    }

    interface Condition {
        boolean holds() throws Exception;
    }

    static void until(Condition condition) throws Exception {
        long end = System.nanoTime() + LONG * 1_000_000;
        while (!condition.holds()) {
            is(System.nanoTime() < end, true);
            Thread.sleep(5);
        }
    }
}
