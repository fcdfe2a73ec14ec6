import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.Enumeration;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TemporaryQueue;
import javax.jms.TransactionRolledBackException;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.command.ActiveMQQueue;

/**
 * Each way of sending and of consuming, on its own thread and queue, while the gateway is killed and starts again.
 *
 * It prints "ready"; the test kills the gateway some times, and writes a line.
 */
class Failover extends Scenarios {
    static final int STOCK = 5_000; // more than a consumer takes meanwhile

    static final List<String> faults = Collections.synchronizedList(new ArrayList<>());
    static volatile boolean isOver;

    static void add() {
        ALL.put("overKills", () -> overKills());
    }

    static Connection failoverConnection(String options) throws Exception {
        String address = "failover:(" + url + ")?initialReconnectDelay=50&maxReconnectDelay=200" + options;
        Connection made = new ActiveMQConnectionFactory(address).createConnection();
        synchronized (opened) {
            opened.add(made);
        }
        made.start();
        return made;
    }

    interface Part {
        void run(String name) throws Exception;
    }

    static void overKills() throws Exception {
        Map<String, Part> parts = new LinkedHashMap<>();
        parts.put("sync", Failover::sendSynchronously);
        parts.put("async", name -> sendAsynchronously(name, "&jms.useAsyncSend=true"));
        parts.put("tracked", name -> sendAsynchronously(name, "&jms.useAsyncSend=true&trackMessages=true"));
        parts.put("committed", Failover::sendInTransactions);
        parts.put("auto", Failover::consumeAutomatically);
        parts.put("client", Failover::consumeWithClientAcknowledge);
        parts.put("transacted", Failover::consumeInTransactions);
        Connection filler = factory("&jms.useAsyncSend=true").createConnection();
        started(filler);
        Session session = filler.createSession(true, 0);
        for (String name : new String[] {"auto", "client", "transacted"}) {
            for (int first = 0; first < STOCK; first += 1_000) {
                send(session, "ow.kills." + name, first, 1_000);
                session.commit();
            }
        }
        List<Thread> threads = new ArrayList<>();
        for (Map.Entry<String, Part> part : parts.entrySet()) {
            String name = part.getKey();
            Thread thread = new Thread(() -> {
                try {
                    part.getValue().run("ow.kills." + name);
                } catch (Throwable error) {
                    faults.add(name + ": " + error + " at " + Arrays.asList(error.getStackTrace()).subList(0, 3));
                }
            });
            thread.start();
            threads.add(thread);
        }
        System.out.println("ready");
        System.in.read(); // until the kills are over
        isOver = true;
        for (Thread thread : threads) {
            thread.join();
        }
        is(faults, Collections.emptyList());
    }

    static boolean goesOn() {
        return !isOver;
    }

    static void sendSynchronously(String name) throws Exception {
        Session session = failoverConnection("").createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = session.createProducer(session.createQueue(name));
        TemporaryQueue temporary = session.createTemporaryQueue();
        int count = 0;
        while (goesOn()) {
            producer.send(session.createTextMessage("m" + count++));
        }
        session.createProducer(temporary).send(session.createTextMessage("m0"));
        takes(session.createConsumer(temporary), 0, 1);
        List<String> found = taken(name);
        for (int number = 0; number < count; number++) {
            is(found.get(number), "m" + number);
        }
        is(found.size(), count);
    }

    /** Nothing confirms these messages, so what a kill finds in sockets is lost; none may come twice or in another order. */
    static void sendAsynchronously(String name, String options) throws Exception {
        Session session = failoverConnection(options).createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = session.createProducer(session.createQueue(name));
        int count = 0;
        while (goesOn()) {
            producer.send(session.createTextMessage("m" + count++));
            Thread.sleep(1);
        }
        session.createTemporaryQueue(); // its response comes behind them
        int last = -1;
        List<String> found = taken(name);
        for (String text : found) {
            int number = Integer.parseInt(text.substring(1));
            is(number > last, true);
            last = number;
        }
        is(found.isEmpty(), false);
    }

    static void sendInTransactions(String name) throws Exception {
        Session session = failoverConnection("").createSession(true, 0);
        MessageProducer producer = session.createProducer(session.createQueue(name));
        Set<String> inDoubt = new HashSet<>();
        List<String> committed = new ArrayList<>();
        int batch = 0;
        while (goesOn()) {
            List<String> texts = new ArrayList<>();
            try {
                for (int number = 0; number < 5; number++) {
                    texts.add("m" + batch + "." + number);
                    producer.send(session.createTextMessage(texts.get(number)));
                }
                session.commit();
                committed.addAll(texts);
            } catch (TransactionRolledBackException error) {
                inDoubt.addAll(texts);
            }
            batch++;
        }
        List<String> found = taken(name);
        is(new HashSet<>(found).size(), found.size());
        is(found.containsAll(committed), true);
        found.removeAll(new HashSet<>(committed));
        is(inDoubt.containsAll(found), true);
    }

    static void consumeAutomatically(String name) throws Exception {
        Session session = failoverConnection("").createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageConsumer consumer = session.createConsumer(session.createQueue(name));
        List<String> found = new ArrayList<>();
        while (goesOn()) {
            Message got = consumer.receive(1_000);
            if (got != null) {
                found.add(text(got));
                Thread.sleep(1);
            }
        }
        session.close();
        is(new HashSet<>(found).size(), found.size());
        completed(name, found);
    }

    static void consumeWithClientAcknowledge(String name) throws Exception {
        Session session = failoverConnection("").createSession(false, Session.CLIENT_ACKNOWLEDGE);
        MessageConsumer consumer = session.createConsumer(session.createQueue(name));
        Set<String> found = new HashSet<>();
        int unacknowledged = 0;
        while (goesOn()) {
            Message got = consumer.receive(1_000);
            if (got == null) {
                continue;
            }
            found.add(text(got));
            if (++unacknowledged == 10) {
                got.acknowledge();
                unacknowledged = 0;
            }
            Thread.sleep(1);
        }
        session.close();
        completed(name, found);
    }

    static void consumeInTransactions(String name) throws Exception {
        Session session = failoverConnection("").createSession(true, 0);
        MessageConsumer consumer = session.createConsumer(session.createQueue(name));
        List<String> committed = new ArrayList<>();
        List<String> repeated = new ArrayList<>(); // with the transactions that had them
        Set<String> inDoubt = new HashSet<>();
        while (goesOn()) {
            List<String> texts = new ArrayList<>();
            try {
                for (int number = 0; number < 10; number++) {
                    Message got = consumer.receive(1_000);
                    if (got != null) {
                        texts.add(text(got));
                        Thread.sleep(1);
                    }
                }
                session.commit();
                for (String one : texts) {
                    int before = committed.lastIndexOf(one);
                    if (before >= 0) {
                        repeated.add(one + ", " + (committed.size() - before) + " messages before, in " + texts);
                    }
                    committed.add(one);
                }
            } catch (TransactionRolledBackException error) {
                inDoubt.addAll(texts);
            } catch (JMSException error) { // it has not got again what it had
                session.rollback();
            }
        }
        session.close();
        is(repeated, Collections.emptyList());
        inDoubt.addAll(committed);
        completed(name, inDoubt);
    }

    /** What was seen, is left, or was suppressed by the client is everything; nothing else became a dead letter. */
    static void completed(String name, Collection<String> seen) throws Exception {
        Set<String> all = new HashSet<>(seen);
        all.addAll(taken(name));
        is(all.size(), STOCK);
        for (String dead : dead(name)) {
            is(seen.contains(dead), true);
        }
    }

    static List<String> taken(String name) throws Exception {
        Session session = failoverConnection("").createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageConsumer consumer = session.createConsumer(session.createQueue(name));
        List<String> found = new ArrayList<>();
        for (Message got = consumer.receive(15_000); got != null; got = consumer.receive(4_000)) {
            found.add(text(got));
        }
        return found;
    }

    static List<String> dead(String name) throws Exception {
        Session session = failoverConnection("").createSession(false, Session.AUTO_ACKNOWLEDGE);
        List<String> found = new ArrayList<>();
        Enumeration<?> shown = session.createBrowser(new ActiveMQQueue("ActiveMQ.DLQ")).getEnumeration();
        while (shown.hasMoreElements()) {
            Message dead = (Message) shown.nextElement();
            if (name.equals(dead.getStringProperty("_AMQ_ORIG_QUEUE"))) {
                is(dead.getStringProperty("dlqDeliveryFailureCause").contains("Suppressing duplicate delivery"), true);
                found.add(text(dead));
            }
        }
        return found;
    }
}
