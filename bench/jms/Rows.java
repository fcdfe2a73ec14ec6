import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.JMSException;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnectionFactory;

/**
 * One row of bench/jms_rows.py: producers and a consumer of activemq-client on a queue, one JSON line as the result.
 *
 * <p>Arguments: URL ROW QUEUE MESSAGES. A run ends when the consumer has received and acknowledged all messages. The first
 * quarter of the messages is not measured, because the JVM still compiles.
 */
public final class Rows {
    private static final int SIZE = 1024;
    private static final int PACED_A_SECOND = 1000;

    private final ActiveMQConnectionFactory factory;
    private final String queue;
    private final int producers;
    private final boolean isPersistent;
    private final boolean isPaced;
    private final int each;
    private final AtomicInteger received = new AtomicInteger();
    private final int warming;
    private final long[] latencies;
    private volatile long begun;

    private Rows(String url, String row, String queue, int messages) {
        this.queue = queue;
        producers = row.matches("sync[0-9]+") ? Integer.parseInt(row.substring(4)) : 1;
        isPersistent = !row.equals("nonpersistent");
        isPaced = row.equals("paced");
        each = messages / producers;
        warming = each * producers / 4;
        latencies = new long[each * producers];
        factory = new ActiveMQConnectionFactory(url);
        factory.setUseAsyncSend(row.equals("async"));
        factory.setCopyMessageOnSend(false);
    }

    public static void main(String[] arguments) throws Exception {
        Rows rows = new Rows(arguments[0], arguments[1], arguments[2], Integer.parseInt(arguments[3]));
        System.out.println(rows.measured());
    }

    private String measured() throws Exception {
        CountDownLatch all = new CountDownLatch(each * producers);
        Connection consuming = connection();
        Session session = consuming.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageConsumer consumer = session.createConsumer(session.createQueue(queue));
        consumer.setMessageListener(message -> {
            try {
                long sent = message.getLongProperty("sent");
                long now = System.nanoTime();
                int index = received.getAndIncrement();
                latencies[index] = now - sent;
                if (index == warming) {
                    begun = now;
                }
            } catch (JMSException cause) {
                throw new IllegalStateException(cause);
            }
            all.countDown();
        });
        Thread[] threads = new Thread[producers];
        for (int index = 0; index < producers; index++) {
            threads[index] = new Thread(this::produce);
            threads[index].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        boolean isComplete = all.await(120, TimeUnit.SECONDS);
        double seconds = (System.nanoTime() - begun) / 1e9;
        consuming.close();
        if (!isComplete) {
            throw new IllegalStateException("received " + received + " of " + latencies.length);
        }
        long[] counted = Arrays.copyOfRange(latencies, warming, latencies.length);
        Arrays.sort(counted);
        return String.format(
                "{\"messages\": %d, \"seconds\": %.3f, \"p50_ms\": %.3f, \"p99_ms\": %.3f}",
                counted.length, seconds, quantile(counted, 0.5), quantile(counted, 0.99));
    }

    private static double quantile(long[] sorted, double share) {
        return sorted[(int) (share * (sorted.length - 1))] / 1e6;
    }

    private Connection connection() throws JMSException {
        Connection connection = factory.createConnection();
        connection.start();
        return connection;
    }

    private void produce() {
        try {
            Connection connection = connection();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Queue to = session.createQueue(queue);
            MessageProducer producer = session.createProducer(to);
            producer.setDeliveryMode(isPersistent ? DeliveryMode.PERSISTENT : DeliveryMode.NON_PERSISTENT);
            byte[] body = new byte[SIZE];
            long begun = System.nanoTime();
            for (int index = 0; index < each; index++) {
                if (isPaced) {
                    long due = begun + index * (1_000_000_000L / PACED_A_SECOND);
                    for (long rest = due - System.nanoTime(); rest > 0; rest = due - System.nanoTime()) {
                        LockSupport.parkNanos(rest);
                    }
                }
                BytesMessage message = session.createBytesMessage();
                message.writeBytes(body);
                message.setLongProperty("sent", System.nanoTime());
                producer.send(message);
            }
            connection.close();
        } catch (JMSException cause) {
            throw new IllegalStateException(cause);
        }
    }
}
