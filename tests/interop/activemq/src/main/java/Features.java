import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Enumeration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.QueueBrowser;
import javax.jms.Session;
import javax.jms.TemporaryTopic;
import javax.jms.TextMessage;
import javax.jms.Topic;
import org.apache.activemq.ActiveMQMessageProducer;
import org.apache.activemq.AsyncCallback;
import org.apache.activemq.command.ActiveMQQueue;

/** Consumers of every kind, redelivery, and what asks for more than one client. */
class Features extends Scenarios {
    static final String PATIENT = "&jms.redeliveryPolicy.initialRedeliveryDelay=300";

    static void add() {
        ALL.put("temporaryTopic", () -> {
            Session asker = session();
            Session server = session();
            TemporaryTopic news = asker.createTemporaryTopic();
            MessageConsumer consumer = asker.createConsumer(news);
            Message question = asker.createTextMessage("ask");
            question.setJMSReplyTo(news);
            asker.createProducer(asker.createQueue("ow.news")).send(question);
            Message got = server.createConsumer(server.createQueue("ow.news")).receive(LONG);
            server.createProducer(got.getJMSReplyTo()).send(server.createTextMessage("m0"));
            takes(consumer, 0, 1);
        });
        ALL.put("retroactive", () -> {
            Session session = session();
            Topic topic = session.createTopic("ow.retroactive");
            MessageProducer producer = session.createProducer(topic);
            for (int number = 0; number < 3; number++) {
                producer.send(session.createTextMessage("m" + number));
            }
            takes(session.createConsumer(session.createTopic("ow.retroactive?consumer.retroactive=true")), 0, 3);
            is(session.createConsumer(topic).receive(SHORT), null);
        });
        ALL.put("durableWithChanges", () -> durableWithChanges());
        ALL.put("durableWildcard", () -> {
            Connection connection = factory("").createConnection();
            connection.setClientID("ow-wild");
            Session session = started(connection).createSession(false, Session.AUTO_ACKNOWLEDGE);
            Topic wild = session.createTopic("ow.dw.>");
            session.createDurableSubscriber(wild, "s").close();
            session.createProducer(session.createTopic("ow.dw.a")).send(session.createTextMessage("m0"));
            session.createProducer(session.createTopic("ow.dw.b.c")).send(session.createTextMessage("m1"));
            MessageConsumer resumed = session.createDurableSubscriber(wild, "s");
            Message first = resumed.receive(LONG);
            is(text(first), "m0");
            is(first.getJMSDestination().toString(), "topic://ow.dw.a");
            takes(resumed, 1, 1);
            resumed.close();
            session.unsubscribe("s");
        });
        ALL.put("browserBeyondItsPrefetch", () -> {
            Session session = connect("&jms.prefetchPolicy.queueBrowserPrefetch=10").createSession(false, 1);
            Queue queue = session.createQueue("ow.browse");
            MessageProducer producer = session.createProducer(queue);
            for (int number = 0; number < 100; number++) {
                Message sent = session.createTextMessage("m" + number);
                sent.setIntProperty("n", number);
                producer.send(sent);
            }
            is(browsed(session.createBrowser(queue)).size(), 100);
            is(browsed(session.createBrowser(queue, "n >= 97")), Arrays.asList("m97", "m98", "m99"));
            takes(session.createConsumer(queue), 0, 100);
        });
        ALL.put("browserWithoutPrefetch", () -> {
            Session session = connect("&jms.prefetchPolicy.queueBrowserPrefetch=0").createSession(false, 1);
            send(session, "ow.browse.pull", 0, 5);
            is(browsed(session.createBrowser(session.createQueue("ow.browse.pull"))).size(), 5);
            takes(session().createConsumer(session.createQueue("ow.browse.pull")), 0, 5);
        });
        ALL.put("wildcardQueues", () -> {
            Session session = session();
            send(session, "ow.wild.a", 0, 1);
            send(session, "ow.wild.b.c", 1, 1);
            MessageConsumer one = session.createConsumer(session.createQueue("ow.wild.*"));
            MessageConsumer all = session.createConsumer(session.createQueue("ow.wild.>"));
            Message got = one.receive(LONG);
            is(got.getJMSDestination().toString(), "queue://ow.wild.a");
            takes(all, 1, 1);
        });
        ALL.put("noLocal", () -> {
            Session own = session();
            Session other = session();
            MessageConsumer consumer = own.createConsumer(own.createTopic("ow.noLocal"), null, true);
            own.createProducer(own.createTopic("ow.noLocal")).send(own.createTextMessage("own"));
            other.createProducer(other.createTopic("ow.noLocal")).send(other.createTextMessage("other"));
            is(text(consumer.receive(LONG)), "other");
        });
        ALL.put("exclusiveHandOver", () -> {
            Session one = session();
            Session two = session();
            MessageConsumer first = one.createConsumer(one.createQueue("ow.hand?consumer.exclusive=true"));
            MessageConsumer second = two.createConsumer(two.createQueue("ow.hand?consumer.exclusive=true"));
            send(one, "ow.hand", 0, 2);
            takes(first, 0, 1);
            is(second.receive(SHORT), null);
            first.close();
            takes(second, 1, 1);
        });
        ALL.put("consumerPriority", () -> {
            Session session = session();
            MessageConsumer low = session.createConsumer(session.createQueue("ow.priority"));
            MessageConsumer high = session.createConsumer(session.createQueue("ow.priority?consumer.priority=10"));
            send(session, "ow.priority", 0, 10);
            takes(high, 0, 10);
            is(low.receive(SHORT), null);
        });
        ALL.put("groups", () -> groups());
        ALL.put("prefetchInTheName", () -> {
            Session session = session(Session.CLIENT_ACKNOWLEDGE);
            MessageConsumer one = session.createConsumer(session.createQueue("ow.one?consumer.prefetchSize=1"));
            Session other = session();
            MessageConsumer rest = other.createConsumer(other.createQueue("ow.one?consumer.prefetchSize=100"));
            send(session, "ow.one", 0, 10);
            is(one.receive(LONG) != null, true);
            for (int count = 0; count < 8; count++) {
                is(rest.receive(LONG) != null, true);
            }
        });
        ALL.put("pendingLimit", () -> {
            Connection slow = connect("");
            Session session = slow.createSession(false, Session.CLIENT_ACKNOWLEDGE);
            String options = "?consumer.prefetchSize=5&consumer.maximumPendingMessageLimit=10";
            MessageConsumer consumer = session.createConsumer(session.createTopic("ow.pending" + options));
            Session sender = session();
            MessageProducer producer = sender.createProducer(sender.createTopic("ow.pending"));
            for (int number = 0; number < 100; number++) {
                producer.send(sender.createTextMessage("m" + number));
            }
            Message last = null;
            int count = 0;
            for (Message got = consumer.receive(LONG); got != null; got = consumer.receive(SHORT)) {
                got.acknowledge();
                last = got;
                count++;
            }
            is(text(last), "m99");
            is(count <= 16, true);
        });
        ALL.put("priorities", () -> {
            Session session = session();
            Queue queue = session.createQueue("ow.priorities");
            MessageProducer producer = session.createProducer(queue);
            for (int priority = 0; priority < 10; priority++) {
                producer.send(session.createTextMessage("m" + (9 - priority)), 2, priority, 0);
            }
            MessageConsumer consumer = session.createConsumer(queue);
            takes(consumer, 0, 10);
        });
        ALL.put("rollbackKeepsDeliveries", () -> {
            Session session = connect(PATIENT).createSession(true, 0);
            send(session, "ow.kept", 0, 3);
            session.commit();
            MessageConsumer consumer = session.createConsumer(session.createQueue("ow.kept"));
            takes(consumer, 0, 3);
            Session other = session();
            MessageConsumer taker = other.createConsumer(other.createQueue("ow.kept"));
            session.rollback();
            is(taker.receive(SHORT), null);
            for (int number = 0; number < 3; number++) {
                Message got = consumer.receive(LONG);
                is(text(got), "m" + number);
                is(got.getIntProperty("JMSXDeliveryCount"), 2);
            }
            session.commit();
            is(taker.receive(SHORT), null);
        });
        ALL.put("overtakingRedelivery", () -> {
            Session session = connect(PATIENT + "&jms.nonBlockingRedelivery=true").createSession(true, 0);
            send(session, "ow.overtaken", 0, 2);
            session.commit();
            MessageConsumer consumer = session.createConsumer(session.createQueue("ow.overtaken"));
            takes(consumer, 0, 1);
            session.rollback();
            takes(consumer, 1, 1);
            session.commit();
            takes(consumer, 0, 1);
            session.commit();
        });
        ALL.put("individualInTransaction", () -> {
            Session session = connect("&jms.transactedIndividualAck=true").createSession(true, 0);
            send(session, "ow.single", 0, 3);
            session.commit();
            MessageConsumer consumer = session.createConsumer(session.createQueue("ow.single"));
            takes(consumer, 0, 3);
            session.rollback();
            takes(consumer, 0, 3);
            session.commit();
            is(session().createConsumer(new ActiveMQQueue("ow.single")).receive(SHORT), null);
        });
        ALL.put("listenerThatRollsBack", () -> {
            Session session = connect("").createSession(true, 0);
            send(session, "ow.attempts", 0, 1);
            session.commit();
            List<Integer> counts = Collections.synchronizedList(new ArrayList<>());
            CountDownLatch done = new CountDownLatch(1);
            session.createConsumer(session.createQueue("ow.attempts")).setMessageListener(message -> {
                try {
                    counts.add(message.getIntProperty("JMSXDeliveryCount"));
                    if (counts.size() < 4) {
                        session.rollback();
                    } else {
                        session.commit();
                        done.countDown();
                    }
                } catch (JMSException error) {
                    throw new IllegalStateException(error);
                }
            });
            is(done.await(LONG, TimeUnit.MILLISECONDS), true);
            is(counts, Arrays.asList(1, 2, 3, 4));
        });
        ALL.put("listenerThatThrows", () -> {
            Session session = session();
            CountDownLatch done = new CountDownLatch(3);
            session.createConsumer(session.createQueue("ow.throws")).setMessageListener(message -> {
                done.countDown();
                if (done.getCount() > 0) {
                    throw new IllegalStateException("not yet");
                }
            });
            send(session(), "ow.throws", 0, 1);
            is(done.await(LONG, TimeUnit.MILLISECONDS), true);
        });
        ALL.put("deliveriesAfterAnOrderlyClose", () -> deliveriesAfterAnOrderlyClose());
        ALL.put("pullInTransaction", () -> {
            Session session = connect("&jms.prefetchPolicy.all=0").createSession(true, 0);
            send(session, "ow.pulled", 0, 3);
            session.commit();
            MessageConsumer consumer = session.createConsumer(session.createQueue("ow.pulled"));
            takes(consumer, 0, 3);
            session.rollback();
            takes(consumer, 0, 3);
            session.commit();
            is(consumer.receiveNoWait(), null);
        });
        ALL.put("pullAfterARollback", () -> {
            Session session = connect("&jms.prefetchPolicy.all=0").createSession(true, 0);
            send(session, "ow.askedTwice", 0, 2);
            session.commit();
            MessageConsumer consumer = session.createConsumer(session.createQueue("ow.askedTwice"));
            takes(consumer, 0, 2);
            session.rollback();
            takes(consumer, 0, 2); // it also asks the gateway, and waits no longer than for its own copies
            is(consumer.receive(SHORT), null);
            session.commit();
            Session other = connect("&jms.prefetchPolicy.all=0").createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageConsumer next = other.createConsumer(other.createQueue("ow.askedTwice"));
            send(other, "ow.askedTwice", 2, 1);
            takes(next, 2, 1);
        });
        ALL.put("closeOfSeveralConsumers", () -> {
            Session session = session(Session.CLIENT_ACKNOWLEDGE);
            MessageConsumer unread = session.createConsumer(session.createQueue("ow.unread"));
            MessageConsumer read = session.createConsumer(session.createQueue("ow.read"));
            send(session, "ow.unread", 0, 2);
            send(session, "ow.read", 0, 1);
            takes(read, 0, 1);
            Thread.sleep(SHORT); // they arrive in the buffer of the other one
            session.close();
            Session next = session();
            MessageConsumer again = next.createConsumer(next.createQueue("ow.unread"));
            for (int number = 0; number < 2; number++) {
                is(again.receive(LONG).getIntProperty("JMSXDeliveryCount"), 1);
            }
            is(next.createConsumer(next.createQueue("ow.read")).receive(LONG).getIntProperty("JMSXDeliveryCount"), 2);
        });
        ALL.put("firstOfAGroup", () -> {
            Session session = session();
            MessageProducer producer = session.createProducer(session.createQueue("ow.first"));
            MessageConsumer consumer = session.createConsumer(session.createQueue("ow.first"));
            for (String group : new String[] {"A", "A", "B"}) {
                Message sent = session.createTextMessage(group);
                sent.setStringProperty("JMSXGroupID", group);
                producer.send(sent);
            }
            List<Boolean> marks = new ArrayList<>();
            for (int number = 0; number < 3; number++) {
                marks.add(consumer.receive(LONG).getBooleanProperty("JMSXGroupFirstForConsumer"));
            }
            is(marks, Arrays.asList(true, false, true));
        });
        ALL.put("pullsShare", () -> {
            Session one = connect("&jms.prefetchPolicy.all=0").createSession(false, Session.CLIENT_ACKNOWLEDGE);
            Session two = connect("&jms.prefetchPolicy.all=0").createSession(false, Session.CLIENT_ACKNOWLEDGE);
            MessageConsumer first = one.createConsumer(one.createQueue("ow.shared"));
            MessageConsumer second = two.createConsumer(two.createQueue("ow.shared"));
            send(one, "ow.shared", 0, 4);
            takes(first, 0, 1);
            takes(second, 1, 1);
            takes(first, 2, 1);
            takes(second, 3, 1);
        });
        ALL.put("expiredAtTheClient", () -> {
            Session session = connect("&jms.prefetchPolicy.all=100").createSession(false, Session.AUTO_ACKNOWLEDGE);
            Queue queue = session.createQueue("ow.expired");
            MessageConsumer consumer = session.createConsumer(queue);
            MessageProducer producer = session.createProducer(queue);
            producer.send(session.createTextMessage("gone"), 2, 4, 300);
            producer.send(session.createTextMessage("m0"));
            Thread.sleep(500); // it waits in the client's buffer meanwhile
            takes(consumer, 0, 1);
            consumer.close();
            is(session.createConsumer(queue).receive(SHORT), null);
        });
        ALL.put("repeatedSchedule", () -> {
            Session session = session();
            Queue queue = session.createQueue("ow.repeated");
            Message sent = session.createTextMessage("m0");
            sent.setLongProperty("AMQ_SCHEDULED_DELAY", 100);
            sent.setLongProperty("AMQ_SCHEDULED_PERIOD", 100);
            sent.setIntProperty("AMQ_SCHEDULED_REPEAT", 2);
            session.createProducer(queue).send(sent);
            MessageConsumer consumer = session.createConsumer(queue);
            for (int count = 0; count < 3; count++) {
                Message got = consumer.receive(LONG);
                is(text(got), "m0");
                is(got.propertyExists("AMQ_SCHEDULED_DELAY"), false);
                is(got.propertyExists("scheduledJobId"), true);
            }
            is(consumer.receive(3 * SHORT), null);
        });
        ALL.put("sendWithCallback", () -> {
            Session session = session();
            ActiveMQMessageProducer producer =
                (ActiveMQMessageProducer) session.createProducer(session.createQueue("ow.callback"));
            CountDownLatch left = new CountDownLatch(100);
            for (int number = 0; number < 100; number++) {
                producer.send(session.createTextMessage("m" + number), new AsyncCallback() {
                    public void onSuccess() {
                        left.countDown();
                    }

                    public void onException(JMSException error) {
                        error.printStackTrace();
                    }
                });
            }
            is(left.await(LONG, TimeUnit.MILLISECONDS), true);
            takes(session.createConsumer(session.createQueue("ow.callback")), 0, 100);
        });
        ALL.put("synchronousOptions", () -> {
            String options = "&jms.alwaysSyncSend=true&jms.sendTimeout=5000&jms.sendAcksAsync=false"
                + "&jms.dispatchAsync=false&jms.alwaysSessionAsync=false";
            Session session = connect(options).createSession(false, Session.CLIENT_ACKNOWLEDGE);
            send(session, "ow.synchronous", 0, 10);
            MessageConsumer consumer = session.createConsumer(session.createQueue("ow.synchronous"));
            takes(consumer, 0, 9);
            consumer.receive(LONG).acknowledge();
            consumer.close();
            is(session.createConsumer(session.createQueue("ow.synchronous")).receive(SHORT), null);
        });
        ALL.put("virtualTopic", () -> {
            Session session = session();
            MessageConsumer one = session.createConsumer(session.createQueue("Consumer.A.VirtualTopic.ow"));
            MessageConsumer two = session.createConsumer(session.createQueue("Consumer.B.VirtualTopic.ow"));
            session.createProducer(session.createTopic("VirtualTopic.ow")).send(session.createTextMessage("m0"));
            takes(one, 0, 1);
            takes(two, 0, 1);
        });
        ALL.put("largeMessage", () -> {
            Session session = session();
            Queue queue = session.createQueue("ow.large");
            byte[] octets = new byte[8_000_000];
            Arrays.fill(octets, (byte) 7);
            BytesMessage sent = session.createBytesMessage();
            sent.writeBytes(octets);
            session.createProducer(queue).send(sent);
            BytesMessage got = (BytesMessage) session.createConsumer(queue).receive(LONG);
            is(got.getBodyLength(), (long) octets.length);
            byte[] read = new byte[octets.length];
            got.readBytes(read);
            is(Arrays.equals(read, octets), true);
        });
        ALL.put("idleConnection", () -> {
            // The delay is also the client's limit for our WireFormatInfo.
            String options = "&wireFormat.maxInactivityDuration=1500&wireFormat.maxInactivityDurationInitalDelay=2000";
            Session session = connect(options).createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageConsumer consumer = session.createConsumer(session.createQueue("ow.idle"));
            is(consumer.receive(5_500), null);
            send(session, "ow.idle", 0, 1);
            takes(consumer, 0, 1);
        });
        ALL.put("manySessions", () -> {
            Connection connection = connect("");
            for (int number = 0; number < 100; number++) { // as Spring's template does without a pool
                Session session = connection.createSession(true, 0);
                send(session, "ow.sessions", number, 1);
                session.commit();
                session.close();
                Session taker = connection.createSession(true, 0);
                takes(taker.createConsumer(taker.createQueue("ow.sessions")), number, 1);
                taker.commit();
                taker.close();
            }
        });
    }

    static List<String> browsed(QueueBrowser browser) throws Exception {
        List<String> found = new ArrayList<>();
        for (Enumeration<?> shown = browser.getEnumeration(); shown.hasMoreElements();) {
            found.add(text((Message) shown.nextElement()));
        }
        browser.close();
        return found;
    }

    static void durableWithChanges() throws Exception {
        Connection connection = factory("").createConnection();
        connection.setClientID("ow-changes");
        Session session = started(connection).createSession(false, Session.AUTO_ACKNOWLEDGE);
        Topic topic = session.createTopic("ow.changes");
        session.createDurableSubscriber(topic, "s", "colour = 'red'", true).close();
        Session other = session();
        MessageProducer foreign = other.createProducer(topic);
        for (String colour : new String[] {"red", "blue"}) {
            TextMessage sent = other.createTextMessage(colour);
            sent.setStringProperty("colour", colour);
            foreign.send(sent);
        }
        MessageConsumer resumed = session.createDurableSubscriber(topic, "s", "colour = 'red'", true);
        is(text(resumed.receive(LONG)), "red");
        TextMessage own = session.createTextMessage("own");
        own.setStringProperty("colour", "red");
        session.createProducer(topic).send(own);
        is(resumed.receive(SHORT), null);
        resumed.close();
        TextMessage red = other.createTextMessage("old");
        red.setStringProperty("colour", "red");
        foreign.send(red);
        MessageConsumer changed = session.createDurableSubscriber(topic, "s", "colour = 'blue'", true);
        is(changed.receive(SHORT), null); // a new subscription, as the selector is another one
        TextMessage blue = other.createTextMessage("new");
        blue.setStringProperty("colour", "blue");
        foreign.send(blue);
        is(text(changed.receive(LONG)), "new");
        changed.close();
        session.unsubscribe("s");
    }

    static void groups() throws Exception {
        Session sender = session();
        Session one = session();
        Session two = session();
        Queue queue = sender.createQueue("ow.groups");
        MessageConsumer first = one.createConsumer(queue);
        MessageConsumer second = two.createConsumer(queue);
        MessageProducer producer = sender.createProducer(queue);
        for (int number = 0; number < 20; number++) {
            Message sent = sender.createTextMessage("m" + number);
            sent.setStringProperty("JMSXGroupID", number % 2 == 0 ? "even" : "odd");
            producer.send(sent);
        }
        List<String> groupsOfFirst = groupsOf(first);
        List<String> groupsOfSecond = groupsOf(second);
        is(groupsOfFirst.size() + groupsOfSecond.size(), 20);
        is(Collections.disjoint(groupsOfFirst, groupsOfSecond), true);
        MessageConsumer owner = groupsOfFirst.contains("even") ? first : second;
        MessageConsumer heir = owner == first ? second : first;
        owner.close();
        Message sent = sender.createTextMessage("last");
        sent.setStringProperty("JMSXGroupID", "even");
        producer.send(sent);
        is(text(heir.receive(LONG)), "last");
    }

    static List<String> groupsOf(MessageConsumer consumer) throws Exception {
        List<String> found = new ArrayList<>();
        for (Message got = consumer.receive(1_000); got != null; got = consumer.receive(SHORT)) {
            found.add(got.getStringProperty("JMSXGroupID"));
        }
        return found;
    }

    /** What the application has seen counts a delivery; what only waited in the client's buffer does not. */
    static void deliveriesAfterAnOrderlyClose() throws Exception {
        Session session = session(Session.CLIENT_ACKNOWLEDGE);
        send(session, "ow.counted", 0, 3);
        MessageConsumer consumer = session.createConsumer(session.createQueue("ow.counted"));
        takes(consumer, 0, 2);
        Thread.sleep(SHORT); // the third one arrives in its buffer
        session.close();
        Session next = session(Session.CLIENT_ACKNOWLEDGE);
        MessageConsumer again = next.createConsumer(next.createQueue("ow.counted"));
        List<Integer> counts = new ArrayList<>();
        List<Boolean> marks = new ArrayList<>();
        for (int number = 0; number < 3; number++) {
            Message got = again.receive(LONG);
            is(text(got), "m" + number);
            counts.add(got.getIntProperty("JMSXDeliveryCount"));
            marks.add(got.getJMSRedelivered());
        }
        is(counts, Arrays.asList(2, 2, 1));
        is(marks, Arrays.asList(true, true, false));
        next.close();
        Session last = session();
        MessageConsumer taker = last.createConsumer(last.createQueue("ow.counted"));
        is(taker.receive(LONG).getIntProperty("JMSXDeliveryCount"), 3);
        takes(taker, 1, 2);
    }
}
