import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.ConnectionFactory;
import javax.jms.MapMessage;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.ObjectMessage;
import javax.jms.Session;
import javax.jms.StreamMessage;
import javax.jms.TextMessage;

/** ActiveMQ's client and Qpid JMS in one program, on queues that a STOMP client uses, too. */
class Mixed extends Scenarios {
    static final int SHARED = 90;

    static void add() {
        ALL.put("typedBothWays", () -> {
            Session openwire = session();
            Session amqp = qpid();
            crosses(openwire, amqp, "mixed.toAmqp");
            crosses(amqp, openwire, "mixed.fromAmqp");
        });
        ALL.put("sharedQueue", () -> {
            Session openwire = connect("&jms.prefetchPolicy.all=5").createSession(false, Session.AUTO_ACKNOWLEDGE);
            Session amqp = qpid();
            MessageConsumer one = openwire.createConsumer(openwire.createQueue("mixed.shared"));
            MessageConsumer two = amqp.createConsumer(amqp.createQueue("mixed.shared"));
            MessageProducer ones = openwire.createProducer(openwire.createQueue("mixed.back"));
            MessageProducer twos = amqp.createProducer(amqp.createQueue("mixed.back"));
            System.out.println("ready"); // STOMP sends now
            int count = 0;
            for (int passes = 0; count < SHARED && passes < 1_000; passes++) {
                Message got = one.receive(SHORT);
                if (got != null) {
                    ones.send(openwire.createTextMessage(text(got)));
                    count++;
                }
                got = two.receive(SHORT);
                if (got != null) {
                    twos.send(amqp.createTextMessage(text(got)));
                    count++;
                }
            }
            is(count, SHARED);
        });
    }

    /** Return a session of Qpid JMS, which is on the class path where its JMS is that of the ActiveMQ client. */
    static Session qpid() throws Exception {
        Object factory = Class.forName("org.apache.qpid.jms.JmsConnectionFactory")
            .getConstructor(String.class).newInstance(url.replace("tcp://", "amqp://"));
        Connection connection = ((ConnectionFactory) factory).createConnection();
        return started(connection).createSession(false, Session.AUTO_ACKNOWLEDGE);
    }

    static void crosses(Session from, Session to, String name) throws Exception {
        MessageProducer producer = from.createProducer(from.createQueue(name));
        TextMessage text = from.createTextMessage("h\u00e9 \uD83D\uDE00");
        text.setIntProperty("int", 7);
        text.setLongProperty("long", 1L << 40);
        text.setDoubleProperty("double", 0.25);
        text.setBooleanProperty("flag", true);
        text.setStringProperty("string", "r\u00f6d");
        text.setJMSCorrelationID("c1");
        text.setJMSType("order");
        text.setJMSReplyTo(from.createQueue("mixed.answers"));
        producer.send(text, 2, 7, 60_000);
        BytesMessage octets = from.createBytesMessage();
        octets.writeBytes(new byte[] {1, -1});
        producer.send(octets);
        MapMessage map = from.createMapMessage();
        map.setInt("i", 5);
        map.setString("s", "x");
        map.setBytes("b", new byte[] {9});
        producer.send(map);
        StreamMessage stream = from.createStreamMessage();
        stream.writeLong(8);
        stream.writeString("s");
        producer.send(stream);
        ObjectMessage object = from.createObjectMessage((Serializable) new ArrayList<>(Collections.singletonList("a")));
        producer.send(object);
        MessageConsumer consumer = to.createConsumer(to.createQueue(name), "int > 6 OR int IS NULL");
        Message got = consumer.receive(LONG);
        is(text(got), text.getText());
        List<Object> values = new ArrayList<>();
        for (String property : new String[] {"int", "long", "double", "flag", "string"}) {
            values.add(got.getObjectProperty(property));
        }
        is(values, Arrays.asList(7, 1L << 40, 0.25, true, "r\u00f6d"));
        is(got.getJMSCorrelationID(), "c1");
        is(got.getJMSType(), "order");
        is(got.getJMSPriority(), 7);
        is(got.getJMSReplyTo().toString().endsWith("mixed.answers"), true);
        is(got.getJMSMessageID(), text.getJMSMessageID());
        byte[] read = new byte[2];
        ((BytesMessage) consumer.receive(LONG)).readBytes(read);
        is(Arrays.toString(read), "[1, -1]");
        MapMessage gotMap = (MapMessage) consumer.receive(LONG);
        is(gotMap.getInt("i"), 5);
        is(gotMap.getString("s"), "x");
        is(gotMap.getBytes("b")[0], (byte) 9);
        StreamMessage gotStream = (StreamMessage) consumer.receive(LONG);
        is(gotStream.readLong(), 8L);
        is(gotStream.readString(), "s");
        is(((ObjectMessage) consumer.receive(LONG)).getObject(), Collections.singletonList("a"));
    }
}
