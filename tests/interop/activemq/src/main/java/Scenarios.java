import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Enumeration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.InvalidClientIDException;
import javax.jms.InvalidDestinationException;
import javax.jms.InvalidSelectorException;
import javax.jms.JMSException;
import javax.jms.JMSSecurityException;
import javax.jms.MapMessage;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.ObjectMessage;
import javax.jms.Queue;
import javax.jms.QueueBrowser;
import javax.jms.Session;
import javax.jms.StreamMessage;
import javax.jms.TemporaryQueue;
import javax.jms.TextMessage;
import javax.jms.Topic;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.ActiveMQSession;
import org.apache.activemq.command.ActiveMQMessage;
import org.apache.activemq.command.ActiveMQQueue;

/** Scenarios by name against one gateway; prints "ok NAME" or "failed NAME: why" for each. */
public class Scenarios {
    static final String QUICK = "jms.redeliveryPolicy.initialRedeliveryDelay=5&jms.redeliveryPolicy.redeliveryDelay=5";
    static final long LONG = 5_000;
    static final long SHORT = 100;

    static String url;
    static List<Connection> opened = new ArrayList<>();

    interface Scenario {
        void run() throws Exception;
    }

    static final Map<String, Scenario> ALL = new LinkedHashMap<>();

    static ActiveMQConnectionFactory factory(String options) {
        ActiveMQConnectionFactory made = new ActiveMQConnectionFactory(url + "?" + QUICK + options);
        made.setTrustAllPackages(true);
        return made;
    }

    static Connection connect(String options) throws Exception {
        return started(factory(options).createConnection());
    }

    static Connection started(Connection connection) throws Exception {
        opened.add(connection);
        connection.start();
        return connection;
    }

    static Session session(int mode) throws Exception {
        return connect("").createSession(false, mode);
    }

    static Session session() throws Exception {
        return session(Session.AUTO_ACKNOWLEDGE);
    }

    static void is(Object found, Object wanted) {
        if (!Objects.equals(found, wanted)) {
            throw new AssertionError("found " + found + ", wanted " + wanted);
        }
    }

    static void fails(Class<? extends Exception> kind, Scenario tried) {
        try {
            tried.run();
        } catch (Exception error) {
            if (kind.isInstance(error)) {
                return;
            }
            throw new AssertionError("found " + error + ", wanted " + kind, error);
        }
        throw new AssertionError("wanted " + kind);
    }

    static String text(Message message) throws Exception {
        return message == null ? null : ((TextMessage) message).getText();
    }

    static void send(Session session, String name, int first, int count) throws Exception {
        MessageProducer producer = session.createProducer(session.createQueue(name));
        for (int number = first; number < first + count; number++) {
            producer.send(session.createTextMessage("m" + number));
        }
    }

    static void takes(MessageConsumer consumer, int first, int count) throws Exception {
        for (int number = first; number < first + count; number++) {
            is(text(consumer.receive(LONG)), "m" + number);
        }
    }

    static {
        ALL.put("headersAndProperties", () -> {
            Session session = session();
            Queue queue = session.createQueue("ow.headers");
            TextMessage sent = session.createTextMessage("h\u00e4llo \u0000 \uD83D\uDE00");
            sent.setBooleanProperty("flag", true);
            sent.setByteProperty("byte", (byte) -3);
            sent.setShortProperty("short", (short) 300);
            sent.setIntProperty("int", 7);
            sent.setLongProperty("long", 1L << 40);
            sent.setFloatProperty("float", 0.5f);
            sent.setDoubleProperty("double", 0.25);
            sent.setStringProperty("string", "r\u00f6d");
            sent.setJMSCorrelationID("c1");
            sent.setJMSType("order");
            sent.setJMSReplyTo(session.createTopic("ow.answers"));
            session.createProducer(queue).send(sent, 2, 7, 60_000);
            Message got = session.createConsumer(queue).receive(LONG);
            is(text(got), sent.getText());
            for (Enumeration<?> names = sent.getPropertyNames(); names.hasMoreElements();) {
                String name = (String) names.nextElement();
                is(got.getObjectProperty(name), sent.getObjectProperty(name));
            }
            is(got.getJMSMessageID(), sent.getJMSMessageID());
            is(got.getJMSCorrelationID(), "c1");
            is(got.getJMSType(), "order");
            is(got.getJMSReplyTo().toString(), "topic://ow.answers");
            is(got.getJMSPriority(), 7);
            is(got.getJMSTimestamp(), sent.getJMSTimestamp());
            is(got.getJMSExpiration(), sent.getJMSExpiration());
            is(got.getJMSRedelivered(), false);
            is(got.getIntProperty("JMSXDeliveryCount"), 1);
        });
        ALL.put("nonPersistent", () -> {
            Session session = session();
            Queue queue = session.createQueue("ow.nonPersistent");
            MessageProducer producer = session.createProducer(queue);
            producer.setDeliveryMode(1);
            for (int number = 0; number < 3_000; number++) {
                producer.send(session.createTextMessage("m" + number));
            }
            takes(session.createConsumer(queue), 0, 3_000);
        });
        for (String how : new String[] {"", "&jms.useCompression=true"}) {
            ALL.put(how.isEmpty() ? "bodies" : "compressedBodies", () -> bodies(how));
        }
        ALL.put("topics", () -> {
            Session session = session();
            Topic topic = session.createTopic("ow.topic.a");
            MessageConsumer one = session.createConsumer(topic);
            MessageConsumer wild = session.createConsumer(session.createTopic("ow.topic.>"));
            MessageConsumer others = session.createConsumer(topic, null, true);
            MessageProducer producer = session.createProducer(topic);
            for (int number = 0; number < 10; number++) {
                producer.send(session.createTextMessage("m" + number));
            }
            takes(one, 0, 10);
            takes(wild, 0, 10);
            is(others.receive(SHORT), null);
        });
        ALL.put("transactionsBeyondThePrefetch", () -> {
            Session session = connect("&jms.prefetchPolicy.all=10").createSession(true, 0);
            send(session, "ow.tx", 500, 100);
            session.rollback();
            send(session, "ow.tx", 0, 100);
            session.commit();
            MessageConsumer consumer = session.createConsumer(session.createQueue("ow.tx"));
            takes(consumer, 0, 100);
            session.rollback();
            for (int number = 0; number < 100; number++) {
                Message got = consumer.receive(LONG);
                is(text(got), "m" + number);
                is(got.getJMSRedelivered(), true);
            }
            session.commit();
            is(consumer.receive(SHORT), null);
            is(session().createConsumer(session.createQueue("ow.tx")).receive(SHORT), null);
        });
        ALL.put("clientAcknowledge", () -> {
            Session session = connect("&jms.prefetchPolicy.all=10").createSession(false, Session.CLIENT_ACKNOWLEDGE);
            send(session, "ow.client", 0, 101);
            MessageConsumer consumer = session.createConsumer(session.createQueue("ow.client"));
            takes(consumer, 0, 99);
            consumer.receive(LONG).acknowledge();
            is(text(consumer.receive(LONG)), "m100");
            session.recover();
            Message again = consumer.receive(LONG);
            is(text(again), "m100");
            is(again.getJMSRedelivered(), true);
            again.acknowledge();
            is(consumer.receive(SHORT), null);
        });
        ALL.put("individualAcknowledge", () -> {
            Session session = session(ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE);
            send(session, "ow.individual", 0, 3);
            Queue queue = session.createQueue("ow.individual");
            MessageConsumer consumer = session.createConsumer(queue);
            consumer.receive(LONG);
            consumer.receive(LONG).acknowledge();
            consumer.close();
            MessageConsumer next = session().createConsumer(queue);
            is(text(next.receive(LONG)), "m0");
            is(text(next.receive(LONG)), "m2");
        });
        ALL.put("dupsOkAcknowledge", () -> {
            Session session = session(Session.DUPS_OK_ACKNOWLEDGE);
            MessageConsumer consumer = session.createConsumer(session.createTopic("ow.dups"));
            MessageProducer producer = session.createProducer(session.createTopic("ow.dups"));
            for (int number = 0; number < 200; number++) {
                producer.send(session.createTextMessage("m" + number));
            }
            takes(consumer, 0, 200);
        });
        ALL.put("optimizeAcknowledge", () -> {
            Connection connection = connect("&jms.optimizeAcknowledge=true&jms.prefetchPolicy.all=100&jms.useAsyncSend=true");
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            send(session, "ow.optimize", 0, 500);
            takes(session.createConsumer(session.createQueue("ow.optimize")), 0, 500);
            connection.close();
            is(session().createConsumer(new ActiveMQQueue("ow.optimize")).receive(SHORT), null);
        });
        ALL.put("poison", () -> {
            Session session = connect("&jms.redeliveryPolicy.maximumRedeliveries=2").createSession(true, 0);
            send(session, "ow.poison", 0, 1);
            session.commit();
            MessageConsumer consumer = session.createConsumer(session.createQueue("ow.poison"));
            for (int count = 0; count < 3; count++) {
                is(text(consumer.receive(LONG)), "m0");
                session.rollback();
            }
            is(consumer.receive(SHORT), null);
            List<String> causes = new ArrayList<>();
            QueueBrowser browser = session().createBrowser(new ActiveMQQueue("ActiveMQ.DLQ"));
            for (Enumeration<?> shown = browser.getEnumeration(); shown.hasMoreElements();) {
                Message dead = (Message) shown.nextElement();
                if ("ow.poison".equals(dead.getStringProperty("_AMQ_ORIG_QUEUE"))) {
                    causes.add(dead.getStringProperty("dlqDeliveryFailureCause"));
                }
            }
            is(causes.size(), 1);
            is(causes.get(0).contains("Delivery[3] exceeds redelivery policy limit"), true);
        });
        ALL.put("selectors", () -> {
            Session session = session();
            Queue queue = session.createQueue("ow.selectors");
            MessageProducer producer = session.createProducer(queue);
            for (int number = 0; number < 10; number++) {
                Message sent = session.createTextMessage("m" + number);
                sent.setIntProperty("n", number);
                producer.send(sent);
            }
            takes(session.createConsumer(queue, "n > 6 AND JMSDeliveryMode = 'PERSISTENT'"), 7, 3);
            fails(InvalidSelectorException.class,
                () -> session.createConsumer(new ActiveMQQueue("ow.selectors?consumer.selector=n%20%3E%3E")));
        });
        ALL.put("durableSubscription", () -> durable());
        ALL.put("browser", () -> {
            Session session = session();
            Queue queue = session.createQueue("ow.browser");
            is(session.createBrowser(queue).getEnumeration().hasMoreElements(), false);
            send(session, "ow.browser", 0, 5);
            QueueBrowser browser = session.createBrowser(queue);
            int count = 0;
            for (Enumeration<?> shown = browser.getEnumeration(); shown.hasMoreElements(); count++) {
                is(text((Message) shown.nextElement()), "m" + count);
            }
            is(count, 5);
            takes(session.createConsumer(queue), 0, 5);
        });
        ALL.put("pull", () -> {
            Session session = connect("&jms.prefetchPolicy.all=0").createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageConsumer consumer = session.createConsumer(session.createQueue("ow.pull"));
            is(consumer.receiveNoWait(), null);
            is(consumer.receive(SHORT), null);
            send(session, "ow.pull", 0, 3);
            is(text(consumer.receiveNoWait()), "m0");
            is(text(consumer.receive(LONG)), "m1");
            is(text(consumer.receive()), "m2");
            is(consumer.receiveNoWait(), null);
        });
        ALL.put("requestReply", () -> requestReply());
        ALL.put("expiry", () -> {
            Session session = session();
            Queue queue = session.createQueue("ow.expiry");
            MessageProducer producer = session.createProducer(queue);
            producer.send(session.createTextMessage("gone"), 2, 4, 20);
            producer.send(session.createTextMessage("stay"), 2, 4, 60_000);
            Thread.sleep(50);
            is(text(session.createConsumer(queue).receive(LONG)), "stay");
        });
        ALL.put("composite", () -> {
            Session session = session();
            MessageConsumer topic = session.createConsumer(session.createTopic("ow.c.3"));
            String all = "ow.c.1,ow.c.2,topic://ow.c.3,queue://ow.c.1";
            session.createProducer(session.createQueue(all)).send(session.createTextMessage("x"));
            Message got = session.createConsumer(session.createQueue("ow.c.2")).receive(LONG);
            is(text(got), "x");
            is(got.getJMSDestination().toString(), "queue://ow.c.2");
            is(((ActiveMQMessage) got).getOriginalDestination().getPhysicalName(), all);
            MessageConsumer once = session.createConsumer(session.createQueue("ow.c.1"));
            is(text(once.receive(LONG)), "x");
            is(once.receive(SHORT), null);
            is(text(topic.receive(LONG)), "x");
        });
        ALL.put("listener", () -> {
            Session session = session();
            CountDownLatch left = new CountDownLatch(100);
            session.createConsumer(session.createQueue("ow.listener")).setMessageListener(message -> left.countDown());
            send(session(), "ow.listener", 0, 100);
            is(left.await(LONG, TimeUnit.MILLISECONDS), true);
        });
        ALL.put("producerWindow", () -> {
            Session session = connect("&jms.producerWindowSize=5000&jms.useAsyncSend=true")
                .createSession(false, Session.AUTO_ACKNOWLEDGE);
            send(session, "ow.window", 0, 100);
            takes(session.createConsumer(session.createQueue("ow.window")), 0, 100);
        });
        ALL.put("scheduled", () -> {
            Session session = session();
            Queue queue = session.createQueue("ow.scheduled");
            Message sent = session.createTextMessage("later");
            sent.setLongProperty("AMQ_SCHEDULED_DELAY", 400);
            session.createProducer(queue).send(sent);
            MessageConsumer consumer = session.createConsumer(queue);
            is(consumer.receive(SHORT), null);
            is(text(consumer.receive(LONG)), "later");
        });
        ALL.put("exclusive", () -> {
            Session session = session();
            MessageConsumer first = session.createConsumer(session.createQueue("ow.exclusive?consumer.exclusive=true"));
            MessageConsumer second = session.createConsumer(session.createQueue("ow.exclusive?consumer.exclusive=true"));
            send(session, "ow.exclusive", 0, 10);
            takes(first, 0, 10);
            is(second.receive(SHORT), null);
        });
        ALL.put("redeliveredAfterClose", () -> {
            Session session = session(Session.CLIENT_ACKNOWLEDGE);
            send(session, "ow.closed", 0, 1);
            takes(session.createConsumer(session.createQueue("ow.closed")), 0, 1);
            session.close();
            Message got = session().createConsumer(new ActiveMQQueue("ow.closed")).receive(LONG);
            is(got.getJMSRedelivered(), true);
        });
        ALL.put("wrongPassword", () -> {
            fails(JMSSecurityException.class, () -> started(factory("").createConnection("alice", "wrong")));
            started(factory("").createConnection("alice", "secret")).createSession(false, 1);
        });
        ALL.put("insistsOnTightEncoding", () -> {
            url = url + "?wireFormat.tightEncodingEnabled=true&wireFormat.cacheEnabled=true";
            Session session = started(new ActiveMQConnectionFactory(url).createConnection()).createSession(false, 1);
            send(session, "ow.tight", 0, 1);
            takes(session.createConsumer(session.createQueue("ow.tight")), 0, 1);
        });
        ALL.put("fromOthers", () -> {
            MessageConsumer consumer = session().createConsumer(new ActiveMQQueue("ow.fromOthers"));
            Message text = consumer.receive(LONG);
            is(text(text), "h\u00e9 \uD83D\uDE00");
            is(text.getStringProperty("colour"), "red");
            is(text.getJMSCorrelationID(), "c");
            is(((BytesMessage) consumer.receive(LONG)).getBodyLength(), 2L);
        });
        ALL.put("toOthers", () -> {
            Session session = session();
            MessageProducer producer = session.createProducer(session.createQueue("ow.toOthers"));
            Message text = session.createTextMessage("h\u00e9 \uD83D\uDE00");
            text.setIntProperty("n", 7);
            text.setJMSCorrelationID("c");
            producer.send(text);
            BytesMessage octets = session.createBytesMessage();
            octets.writeBytes(new byte[] {1, -1});
            producer.send(octets);
            MapMessage map = session.createMapMessage();
            map.setInt("i", 5);
            producer.send(map);
        });
    }

    static void bodies(String how) throws Exception {
        Session session = connect(how).createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue("ow.bodies");
        MessageProducer producer = session.createProducer(queue);
        MessageConsumer consumer = session.createConsumer(queue);
        BytesMessage octets = session.createBytesMessage();
        octets.writeBytes(new byte[] {1, 2, -1});
        producer.send(octets);
        byte[] read = new byte[3];
        ((BytesMessage) consumer.receive(LONG)).readBytes(read);
        is(Arrays.toString(read), "[1, 2, -1]");
        MapMessage map = session.createMapMessage();
        map.setInt("i", 5);
        map.setString("s", "x");
        map.setBytes("b", new byte[] {9});
        producer.send(map);
        MapMessage gotMap = (MapMessage) consumer.receive(LONG);
        is(gotMap.getObject("i"), 5);
        is(gotMap.getObject("s"), "x");
        is(gotMap.getBytes("b")[0], (byte) 9);
        StreamMessage stream = session.createStreamMessage();
        stream.writeInt(8);
        stream.writeString("s");
        producer.send(stream);
        StreamMessage gotStream = (StreamMessage) consumer.receive(LONG);
        is(gotStream.readObject(), 8);
        is(gotStream.readObject(), "s");
        producer.send(session.createObjectMessage(new ArrayList<>(Collections.singletonList("a"))));
        is(((ObjectMessage) consumer.receive(LONG)).getObject(), Collections.singletonList("a"));
        producer.send(session.createMessage());
        is(consumer.receive(LONG) != null, true);
        char[] large = new char[900_000];
        Arrays.fill(large, 'x');
        for (String text : new String[] {null, "", new String(large)}) {
            producer.send(session.createTextMessage(text));
            is(text(consumer.receive(LONG)), text);
        }
    }

    static void durable() throws Exception {
        Connection connection = factory("").createConnection();
        connection.setClientID("ow-durable");
        Session session = started(connection).createSession(false, Session.AUTO_ACKNOWLEDGE);
        Topic topic = session.createTopic("ow.durable");
        MessageConsumer consumer = session.createDurableSubscriber(topic, "sub");
        fails(JMSException.class, () -> session.createDurableSubscriber(topic, "sub"));
        Connection other = factory("").createConnection();
        opened.add(other);
        fails(InvalidClientIDException.class, () -> {
            other.setClientID("ow-durable");
            other.start();
        });
        consumer.close();
        session.createProducer(topic).send(session.createTextMessage("late"));
        connection.close();
        Connection again = factory("").createConnection();
        again.setClientID("ow-durable");
        Session next = started(again).createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageConsumer resumed = next.createDurableSubscriber(topic, "sub");
        is(text(resumed.receive(LONG)), "late");
        fails(JMSException.class, () -> next.unsubscribe("sub"));
        resumed.close();
        next.unsubscribe("sub");
        fails(InvalidDestinationException.class, () -> next.unsubscribe("sub"));
    }

    static void requestReply() throws Exception {
        Session asker = session();
        Session server = session();
        TemporaryQueue answers = asker.createTemporaryQueue();
        MessageConsumer consumer = asker.createConsumer(answers);
        Message question = asker.createTextMessage("ask");
        question.setJMSReplyTo(answers);
        asker.createProducer(asker.createQueue("ow.rpc")).send(question);
        Message got = server.createConsumer(server.createQueue("ow.rpc")).receive(LONG);
        server.createProducer(null).send(got.getJMSReplyTo(), server.createTextMessage("answer"));
        is(text(consumer.receive(LONG)), "answer");
        Session late = session(); // it has to hear of a temporary queue that was there before
        late.createProducer(got.getJMSReplyTo()).send(late.createTextMessage("late"));
        is(text(consumer.receive(LONG)), "late");
        fails(JMSException.class, () -> answers.delete());
        consumer.close();
        answers.delete();
        long until = System.nanoTime() + LONG * 1_000_000;
        while (true) { // until the others have heard of it
            try {
                late.createProducer(null).send(got.getJMSReplyTo(), late.createTextMessage("too late"));
            } catch (InvalidDestinationException expected) {
                return;
            }
            is(System.nanoTime() < until, true);
            Thread.sleep(5);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Features.add();
        Distributed.add();
        Advisories.add();
        Failover.add();
        Mixed.add();
        Limits.add();
        Limits.addWithUsers();
        for (String name : Arrays.asList(arguments).subList(1, arguments.length)) {
            url = arguments[0];
            try {
                ALL.get(name).run();
                System.out.println("ok " + name);
            } catch (Throwable error) {
                StackTraceElement[] where = error.getStackTrace();
                System.out.println("failed " + name + ": " + error + " at " + Arrays.asList(where).subList(0, Math.min(6, where.length)));
            }
            for (Connection connection : opened) {
                try {
                    connection.close();
                } catch (JMSException gone) {
                    // the scenario was about that
                }
            }
            opened.clear();
        }
        System.exit(0);
    }
}
