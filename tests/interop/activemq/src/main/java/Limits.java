import javax.jms.BytesMessage;
import javax.jms.JMSException;
import javax.jms.JMSSecurityException;
import javax.jms.MessageConsumer;
import javax.jms.ResourceAllocationException;
import javax.jms.Session;
import javax.jms.TransactionRolledBackException;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.ActiveMQSslConnectionFactory;

/** What only a gateway with a configuration of its own can show; the test sets system properties. */
class Limits extends Scenarios {
    static final int TOO_MUCH = 300_000;

    static void add() {
        ALL.put("tooLargeMessage", () -> {
            refused(session());
            String address = "failover:(" + url + ")?initialReconnectDelay=50";
            Session again = started(new ActiveMQConnectionFactory(address).createConnection()).createSession(false, 1);
            refused(again);
            Session transacted = connect("").createSession(true, 0);
            transacted.createProducer(transacted.createQueue("ow.tooLarge")).send(large(transacted));
            fails(TransactionRolledBackException.class, () -> transacted.commit());
        });
        ALL.put("slowConsumer", () -> {
            Session session = connect("&jms.prefetchPolicy.all=1").createSession(false, Session.CLIENT_ACKNOWLEDGE);
            MessageConsumer consumer = session.createConsumer(session.createQueue("ow.slow"));
            send(session, "ow.slow", 0, 3);
            takes(consumer, 0, 1);
            Advisories.until(() -> isClosed(consumer));
            takes(session.createConsumer(session.createQueue("ow.slow")), 0, 3); // its connection goes on
        });
        ALL.put("asks", () -> {
            Session session = connect("&wireFormat.maxInactivityDuration=5000&jms.watchTopicAdvisories=false")
                .createSession(false, Session.AUTO_ACKNOWLEDGE);
            String options = "?consumer.prefetchSize=7&consumer.exclusive=true&consumer.priority=3";
            session.createConsumer(session.createQueue("ow.asked" + options), "n > 1");
            System.out.println("ready");
            System.in.read();
        });
        ALL.put("overTls", () -> {
            ActiveMQSslConnectionFactory factory = new ActiveMQSslConnectionFactory(url);
            factory.setTrustStore(System.getProperty("trust"));
            factory.setTrustStorePassword("secret");
            Session session = started(factory.createConnection()).createSession(false, 1);
            send(session, "ow.tls", 0, 1);
            takes(session.createConsumer(session.createQueue("ow.tls")), 0, 1);
            factory = new ActiveMQSslConnectionFactory("failover:(" + url + ")");
            factory.setTrustStore(System.getProperty("trust"));
            factory.setTrustStorePassword("secret");
            started(factory.createConnection()).createSession(false, 1);
            ActiveMQConnectionFactory unknowing = new ActiveMQConnectionFactory(url);
            fails(JMSException.class, () -> started(unknowing.createConnection()));
        });
    }

    /** With logins, a drain and rates: the test says when the gateway stops. */
    static void addWithUsers() {
        ALL.put("drained", () -> {
            Session session = connect("&jms.prefetchPolicy.all=10").createSession(false, Session.AUTO_ACKNOWLEDGE);
            send(session, "ow.drained", 0, 20);
            MessageConsumer consumer = session.createConsumer(session.createQueue("ow.drained"));
            takes(consumer, 0, 1);
            System.out.println("ready");
            System.in.read();
            int count = 1;
            try {
                while (consumer.receive(60_000) != null) { // until its connection ends
                    count++;
                }
            } catch (JMSException ended) {
                // with it
            }
            System.out.println("took " + count);
        });
        ALL.put("tokenAsPassword", () -> {
            String token = System.getProperty("token");
            fails(JMSSecurityException.class,
                () -> started(factory("").createConnection("ann", token.substring(0, token.lastIndexOf('.')) + ".AAAA")));
            Session session = started(factory("").createConnection("ann", token)).createSession(false, 1);
            send(session, "ow.token", 0, 1);
            takes(session.createConsumer(session.createQueue("ow.token")), 0, 1);
        });
        ALL.put("slowedUser", () -> {
            Session session = session();
            send(session, "ow.slowed", 0, 15);
            Session async = connect("&jms.useAsyncSend=true").createSession(false, Session.AUTO_ACKNOWLEDGE);
            send(async, "ow.slowed", 15, 15);
            takes(session.createConsumer(session.createQueue("ow.slowed")), 0, 30);
        });
    }

    static BytesMessage large(Session session) throws Exception {
        BytesMessage made = session.createBytesMessage();
        made.writeBytes(new byte[TOO_MUCH]);
        return made;
    }

    static void refused(Session session) throws Exception {
        fails(ResourceAllocationException.class,
            () -> session.createProducer(session.createQueue("ow.tooLarge")).send(large(session)));
        send(session, "ow.tooLarge", 0, 1);
        MessageConsumer consumer = session.createConsumer(session.createQueue("ow.tooLarge"));
        takes(consumer, 0, 1);
        consumer.close();
    }

    static boolean isClosed(MessageConsumer consumer) throws Exception {
        try {
            consumer.getMessageListener();
            return false;
        } catch (javax.jms.IllegalStateException closed) {
            return true;
        }
    }
}
