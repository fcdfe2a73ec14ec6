import java.util.Set;
import java.util.TreeSet;
import javax.jms.Connection;
import javax.jms.MessageConsumer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.Topic;
import javax.jms.XAConnection;
import javax.jms.XASession;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;
import org.apache.activemq.ActiveMQXAConnectionFactory;
import org.apache.activemq.command.XATransactionId;

/** Distributed transactions, as a transaction manager drives them. */
class Distributed extends Scenarios {
    static void add() {
        ALL.put("xaTwoPhases", () -> {
            send(session(), "ow.xa.in", 0, 2);
            XASession session = xaSession("");
            MessageConsumer consumer = session.createConsumer(session.createQueue("ow.xa.in"));
            Xid xid = xid("two");
            work(session, xid, consumer, "ow.xa.out", 2);
            XAResource resource = session.getXAResource();
            is(resource.prepare(xid), XAResource.XA_OK);
            is(receives("ow.xa.out"), null);
            resource.commit(xid, false);
            is(receives("ow.xa.out"), "m0");
            consumer.close();
            is(receives("ow.xa.in"), null);
        });
        ALL.put("xaOnePhase", () -> {
            send(session(), "ow.xa1.in", 0, 1);
            XASession session = xaSession("");
            MessageConsumer consumer = session.createConsumer(session.createQueue("ow.xa1.in"));
            work(session, xid("one"), consumer, "ow.xa1.out", 1);
            session.getXAResource().commit(xid("one"), true);
            is(receives("ow.xa1.out"), "m0");
        });
        ALL.put("xaRollback", () -> {
            for (boolean isPrepared : new boolean[] {false, true}) {
                String name = "ow.xar." + isPrepared;
                send(session(), name, 0, 2);
                XASession session = xaSession("");
                MessageConsumer consumer = session.createConsumer(session.createQueue(name));
                XAResource resource = session.getXAResource();
                Xid first = xid(name + 1);
                work(session, first, consumer, "ow.xar.out", 2);
                if (isPrepared) {
                    is(resource.prepare(first), XAResource.XA_OK);
                }
                resource.rollback(first);
                Xid second = xid(name + 2);
                resource.start(second, XAResource.TMNOFLAGS);
                takes(consumer, 0, 2); // again, and from the client itself
                resource.end(second, XAResource.TMSUCCESS);
                resource.commit(second, true);
                consumer.close();
                is(receives(name), null);
                is(receives("ow.xar.out"), null);
            }
        });
        ALL.put("xaReadOnly", () -> {
            XASession session = xaSession("");
            session.createConsumer(session.createQueue("ow.xa.nothing"));
            XAResource resource = session.getXAResource();
            resource.start(xid("nothing"), XAResource.TMNOFLAGS);
            resource.end(xid("nothing"), XAResource.TMSUCCESS);
            is(resource.prepare(xid("nothing")), XAResource.XA_RDONLY);
        });
        ALL.put("xaCodes", () -> {
            XASession session = xaSession("");
            XAResource resource = session.getXAResource();
            is(code(() -> resource.commit(xid("unknown"), false)), XAException.XAER_NOTA);
            is(code(() -> resource.rollback(xid("unknown"))), XAException.XAER_NOTA);
            is(resource.isSameRM(xaSession("").getXAResource()), true);
        });
        ALL.put("xaJoin", () -> {
            XASession first = xaSession("");
            XASession second = xaSession("");
            Xid xid = xid("join");
            first.getXAResource().start(xid, XAResource.TMNOFLAGS);
            second.getXAResource().start(xid, XAResource.TMJOIN);
            send(first, "ow.xaj", 0, 1);
            send(second, "ow.xaj", 1, 1);
            first.getXAResource().end(xid, XAResource.TMSUCCESS);
            second.getXAResource().end(xid, XAResource.TMSUCCESS);
            is(first.getXAResource().prepare(xid), XAResource.XA_OK);
            first.getXAResource().commit(xid, false);
            takes(session().createConsumer(session().createQueue("ow.xaj")), 0, 2);
        });
        ALL.put("xaDurable", () -> xaDurable());
        ALL.put("xaOverKills", () -> overKills());
        ALL.put("xaDecided", () -> {
            XASession session = xaSession("");
            XAResource resource = session.getXAResource();
            for (String name : new String[] {"committed", "dropped"}) {
                resource.start(xid(name), XAResource.TMNOFLAGS);
                send(session, "ow.xah", 0, 1);
                resource.end(xid(name), XAResource.TMSUCCESS);
                is(resource.prepare(xid(name)), XAResource.XA_OK);
            }
            told("prepared");
            is(recovered(resource), "[committed, dropped]");
            is(code(() -> resource.rollback(xid("committed"))), XAException.XA_HEURCOM);
            is(code(() -> resource.commit(xid("dropped"), false)), XAException.XA_HEURRB);
            resource.forget(xid("committed"));
            resource.forget(xid("dropped"));
            is(recovered(resource), "[]");
            is(code(() -> resource.forget(xid("dropped"))), XAException.XAER_NOTA);
            is(receives("ow.xah"), "m0");
        });
    }

    static void xaDurable() throws Exception {
        XAConnection connection = new ActiveMQXAConnectionFactory(url).createXAConnection();
        connection.setClientID("ow-xa");
        started(connection);
        XASession session = connection.createXASession();
        Topic topic = session.createTopic("ow.xa.topic");
        MessageConsumer consumer = session.createDurableSubscriber(topic, "s");
        Session plain = session();
        for (int number = 0; number < 2; number++) {
            plain.createProducer(topic).send(plain.createTextMessage("m" + number));
        }
        work(session, xid("durable"), consumer, "ow.xad.out", 1);
        is(session.getXAResource().prepare(xid("durable")), XAResource.XA_OK);
        connection.close();
        xaSession("").getXAResource().commit(xid("durable"), false);
        Connection again = factory("").createConnection();
        again.setClientID("ow-xa");
        Session next = started(again).createSession(false, Session.AUTO_ACKNOWLEDGE);
        takes(next.createDurableSubscriber(topic, "s"), 1, 1);
    }

    /** The gateway is killed and starts again while branches are prepared, active and decided. */
    static void overKills() throws Exception {
        XASession session = xaSession("");
        for (String name : new String[] {"a", "b", "c", "d"}) {
            send(session(), "ow.xak." + name, 0, 2);
            MessageConsumer consumer = session.createConsumer(session.createQueue("ow.xak." + name));
            work(session, xid(name), consumer, "ow.xak.out." + name, 2);
            if (!name.equals("d")) {
                is(session.getXAResource().prepare(xid(name)), XAResource.XA_OK);
            }
        }
        told("prepared");
        XAResource resource = xaSession("").getXAResource();
        is(recovered(resource), "[a, b, c]");
        for (String name : new String[] {"a", "b", "c"}) {
            is(receives("ow.xak." + name), null);
            is(receives("ow.xak.out." + name), null);
        }
        is(code(() -> resource.commit(xid("d"), false)), XAException.XAER_NOTA);
        is(receives("ow.xak.out.d"), null);
        takes(session().createConsumer(session().createQueue("ow.xak.d")), 0, 2);
        resource.commit(xid("a"), false);
        resource.rollback(xid("b"));
        told("decided");
        XAResource last = xaSession("").getXAResource();
        is(recovered(last), "[c]");
        is(receives("ow.xak.a"), null);
        is(receives("ow.xak.out.a"), "m0");
        takes(session().createConsumer(session().createQueue("ow.xak.b")), 0, 2);
        is(receives("ow.xak.out.b"), null);
        is(receives("ow.xak.out.c"), null);
        last.commit(xid("c"), false);
        is(receives("ow.xak.c"), null);
        is(receives("ow.xak.out.c"), "m0");
        is(recovered(last), "[]");
    }

    /** Say what the state is, and wait for a line: that the gateway was killed and has started again, or the like. */
    static void told(String state) throws Exception {
        System.out.println(state);
        while (System.in.read() != '\n') {
            continue;
        }
    }

    static XASession xaSession(String options) throws Exception {
        XAConnection connection = new ActiveMQXAConnectionFactory(url + "?" + QUICK + options).createXAConnection();
        started(connection);
        return connection.createXASession();
    }

    static Xid xid(String name) {
        XATransactionId made = new XATransactionId();
        made.setFormatId(1);
        made.setGlobalTransactionId(name.getBytes());
        made.setBranchQualifier(new byte[] {1});
        return made;
    }

    /** Receive some messages and send one, in a branch that ends with it. */
    static void work(XASession session, Xid xid, MessageConsumer consumer, String to, int count) throws Exception {
        session.getXAResource().start(xid, XAResource.TMNOFLAGS);
        takes(consumer, 0, count);
        send(session, to, 0, 1);
        session.getXAResource().end(xid, XAResource.TMSUCCESS);
    }

    /** Return the first message of a queue, null for none. */
    static String receives(String name) throws Exception {
        Connection connection = connect("");
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue(name);
        String found = text(session.createConsumer(queue).receive(4 * SHORT));
        connection.close();
        return found;
    }

    static int code(Scenario tried) {
        try {
            tried.run();
        } catch (XAException error) {
            return error.errorCode;
        } catch (Exception error) {
            throw new AssertionError("found " + error, error);
        }
        return 0;
    }

    static String recovered(XAResource resource) throws Exception {
        Set<String> names = new TreeSet<>();
        for (Xid xid : resource.recover(XAResource.TMSTARTRSCAN)) {
            names.add(new String(xid.getGlobalTransactionId()));
        }
        return names.toString();
    }
}
