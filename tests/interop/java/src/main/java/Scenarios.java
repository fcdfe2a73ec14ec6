import jakarta.jms.BytesMessage;
import jakarta.jms.Connection;
import jakarta.jms.DeliveryMode;
import jakarta.jms.Destination;
import jakarta.jms.InvalidClientIDException;
import jakarta.jms.InvalidDestinationException;
import jakarta.jms.InvalidSelectorException;
import jakarta.jms.JMSException;
import jakarta.jms.JMSSecurityException;
import jakarta.jms.MapMessage;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.ObjectMessage;
import jakarta.jms.Queue;
import jakarta.jms.QueueBrowser;
import jakarta.jms.Session;
import jakarta.jms.StreamMessage;
import jakarta.jms.TemporaryQueue;
import jakarta.jms.TemporaryTopic;
import jakarta.jms.TextMessage;
import jakarta.jms.Topic;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.qpid.jms.JmsConnectionFactory;

/** Scenarios of JMS applications: {@code Scenarios amqp://HOST:PORT NAME...}; each prints "ok NAME" or why not. */
public class Scenarios {
  static final long LIMIT_MS = 15_000;
  static final long QUIET_MS = 400;

  final String uri;
  final String name;
  final List<Connection> connections = new ArrayList<>();

  Scenarios(String uri, String name) {
    this.uri = uri;
    this.name = name;
  }

  public static void main(String[] arguments) {
    String uri = arguments[0];
    for (String name : Arrays.asList(arguments).subList(1, arguments.length)) {
      Scenarios scenario = new Scenarios(uri, name);
      try {
        Method method = Scenarios.class.getDeclaredMethod(name);
        method.invoke(scenario);
        System.out.println("ok " + name);
      } catch (InvocationTargetException wrapped) {
        Throwable cause = wrapped.getCause();
        StringBuilder text = new StringBuilder("failed " + name + ": " + cause);
        for (StackTraceElement element : cause.getStackTrace()) {
          if (element.getClassName().equals("Scenarios")) {
            text.append(" at line ").append(element.getLineNumber());
            break;
          }
        }
        System.out.println(text.toString().replace('\n', ' '));
      } catch (ReflectiveOperationException error) {
        System.out.println("failed " + name + ": " + error);
      } finally {
        scenario.close();
      }
      System.out.flush();
    }
    System.exit(0);
  }

  // -- help

  Connection connect(String options, String clientId) throws JMSException {
    JmsConnectionFactory factory = new JmsConnectionFactory(options.isEmpty() ? uri : uri + (uri.contains("?") ? "&" : "?") + options);
    Connection connection = factory.createConnection();
    connections.add(connection);
    if (clientId != null) {
      connection.setClientID(clientId);
    }
    connection.start();
    return connection;
  }

  Session session() throws JMSException {
    return session(Session.AUTO_ACKNOWLEDGE);
  }

  Session session(int mode) throws JMSException {
    return connect("", null).createSession(mode);
  }

  void close() {
    for (Connection connection : connections) {
      try {
        connection.close();
      } catch (JMSException ignored) {
        // It may have been closed already.
      }
    }
  }

  static void expect(Object expected, Object seen) {
    if (!Objects.equals(expected, seen)) {
      throw new AssertionError("expected " + expected + ", saw " + seen);
    }
  }

  static String text(MessageConsumer consumer) throws JMSException {
    Message message = consumer.receive(LIMIT_MS);
    if (message == null) {
      throw new AssertionError("no message");
    }
    return ((TextMessage) message).getText();
  }

  static void nothing(MessageConsumer consumer) throws JMSException {
    Message message = consumer.receive(QUIET_MS);
    if (message != null) {
      throw new AssertionError("a message too many: " + message.getJMSMessageID());
    }
  }

  Queue queue(Session session) throws JMSException {
    return session.createQueue("jms." + name);
  }

  void send(Session session, Destination destination, String... texts) throws JMSException {
    MessageProducer producer = session.createProducer(destination);
    for (String text : texts) {
      TextMessage message = session.createTextMessage(text);
      message.setStringProperty("scenario", name);
      producer.send(message);
    }
    producer.close();
  }

  // The dead letters of this scenario alone: others share the gateway and have theirs.
  MessageConsumer deadLetters(Session session) throws JMSException {
    return session.createConsumer(session.createQueue("ActiveMQ.DLQ"), "scenario = '" + name + "'");
  }

  static String[] numbered(int count) {
    String[] texts = new String[count];
    for (int number = 0; number < count; number++) {
      texts[number] = "m" + number;
    }
    return texts;
  }

  // -- scenarios

  void queueInOrder() throws JMSException {
    Session session = session();
    send(session, queue(session), numbered(50));
    MessageConsumer consumer = session.createConsumer(queue(session));
    for (String text : numbered(50)) {
      expect(text, text(consumer));
    }
    nothing(consumer);
    expect(null, consumer.receiveNoWait());
  }

  void topicToAll() throws JMSException {
    Session session = session();
    Topic topic = session.createTopic("jms." + name);
    MessageConsumer one = session.createConsumer(topic);
    MessageConsumer other = session().createConsumer(topic);
    send(session, topic, "a", "b");
    expect("a", text(one));
    expect("b", text(one));
    expect("a", text(other));
    expect("b", text(other));
  }

  void messageTypes() throws Exception {
    Session session = session();
    MessageProducer producer = session.createProducer(queue(session));
    BytesMessage bytes = session.createBytesMessage();
    bytes.writeBytes(new byte[] {1, 2, -1});
    producer.send(bytes);
    MapMessage map = session.createMapMessage();
    map.setString("text", "a");
    map.setInt("int", 7);
    map.setBytes("bytes", new byte[] {9});
    producer.send(map);
    StreamMessage stream = session.createStreamMessage();
    stream.writeLong(8L);
    stream.writeString("s");
    producer.send(stream);
    producer.send(session.createObjectMessage(new ArrayList<>(List.of("x"))));
    producer.send(session.createMessage());
    producer.send(session.createTextMessage(null));
    MessageConsumer consumer = session.createConsumer(queue(session));
    BytesMessage gotBytes = (BytesMessage) consumer.receive(LIMIT_MS);
    expect(3L, gotBytes.getBodyLength());
    MapMessage gotMap = (MapMessage) consumer.receive(LIMIT_MS);
    expect("a", gotMap.getString("text"));
    expect(7, gotMap.getInt("int"));
    expect((byte) 9, gotMap.getBytes("bytes")[0]);
    StreamMessage gotStream = (StreamMessage) consumer.receive(LIMIT_MS);
    expect(8L, gotStream.readLong());
    expect("s", gotStream.readString());
    if (!(consumer.receive(LIMIT_MS) instanceof ObjectMessage)) {
      throw new AssertionError("no ObjectMessage");
    }
    Message plain = consumer.receive(LIMIT_MS);
    expect(false, plain instanceof TextMessage);
    expect(null, ((TextMessage) consumer.receive(LIMIT_MS)).getText());
  }

  void headersAndProperties() throws JMSException {
    Session session = session();
    TextMessage message = session.createTextMessage("x");
    message.setJMSCorrelationID("c-1");
    message.setJMSType("order");
    message.setJMSReplyTo(session.createTopic("answers"));
    message.setStringProperty("JMSXGroupID", "g");
    message.setIntProperty("JMSXGroupSeq", 2);
    message.setBooleanProperty("yes", true);
    message.setByteProperty("byte", (byte) 1);
    message.setShortProperty("short", (short) 2);
    message.setIntProperty("int", 3);
    message.setLongProperty("long", 4L);
    message.setFloatProperty("float", 1.5f);
    message.setDoubleProperty("double", 2.5);
    MessageProducer producer = session.createProducer(queue(session));
    producer.setPriority(7);
    producer.setTimeToLive(60_000);
    producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
    producer.send(message);
    Message got = session.createConsumer(queue(session)).receive(LIMIT_MS);
    expect(message.getJMSMessageID(), got.getJMSMessageID());
    expect(message.getJMSTimestamp(), got.getJMSTimestamp());
    expect(message.getJMSExpiration(), got.getJMSExpiration());
    expect("c-1", got.getJMSCorrelationID());
    expect("order", got.getJMSType());
    expect("answers", ((Topic) got.getJMSReplyTo()).getTopicName());
    expect("jms." + name, ((Queue) got.getJMSDestination()).getQueueName());
    expect(7, got.getJMSPriority());
    expect(DeliveryMode.NON_PERSISTENT, got.getJMSDeliveryMode());
    expect(false, got.getJMSRedelivered());
    expect(1, got.getIntProperty("JMSXDeliveryCount"));
    expect("g", got.getStringProperty("JMSXGroupID"));
    expect(2, got.getIntProperty("JMSXGroupSeq"));
    expect(true, got.getObjectProperty("yes"));
    expect((byte) 1, got.getObjectProperty("byte"));
    expect((short) 2, got.getObjectProperty("short"));
    expect(3, got.getObjectProperty("int"));
    expect(4L, got.getObjectProperty("long"));
    expect(1.5f, got.getObjectProperty("float"));
    expect(2.5, got.getObjectProperty("double"));
  }

  void typedProperties() throws JMSException {
    Session session = session();
    TextMessage message = session.createTextMessage("x");
    message.setBooleanProperty("yes", true);
    message.setByteProperty("byte", (byte) 1);
    message.setShortProperty("short", (short) 2);
    message.setIntProperty("int", 3);
    message.setLongProperty("long", 4L);
    message.setFloatProperty("float", 1.5f);
    message.setDoubleProperty("double", 2.5);
    message.setStringProperty("text", "five");
    session.createProducer(queue(session)).send(message);
  }

  void anonymousProducer() throws JMSException {
    Session session = session();
    MessageProducer producer = session.createProducer(null);
    producer.send(queue(session), session.createTextMessage("to a queue"));
    Topic topic = session.createTopic("jms." + name);
    MessageConsumer listener = session.createConsumer(topic);
    producer.send(topic, session.createTextMessage("to a topic"));
    expect("to a queue", text(session.createConsumer(queue(session))));
    expect("to a topic", text(listener));
  }

  void transactions() throws JMSException {
    Session session = session(Session.SESSION_TRANSACTED);
    Session watching = session();
    MessageConsumer watcher = watching.createConsumer(queue(watching));
    send(session, queue(session), "one", "two");
    nothing(watcher);
    session.rollback();
    nothing(watcher);
    send(session, queue(session), "three", "four");
    session.commit();
    expect("three", text(watcher));
    expect("four", text(watcher));
    nothing(watcher);
  }

  void transactedReceiveWithRollback() throws JMSException {
    Session plain = session();
    send(plain, queue(plain), numbered(5));
    Session session = session(Session.SESSION_TRANSACTED);
    MessageConsumer consumer = session.createConsumer(queue(session));
    expect("m0", text(consumer));
    expect("m1", text(consumer));
    session.rollback();
    for (int number = 0; number < 5; number++) {
      Message message = consumer.receive(LIMIT_MS);
      expect("m" + number, ((TextMessage) message).getText());
      expect(number < 2, message.getJMSRedelivered());
      expect(number < 2 ? 2 : 1, message.getIntProperty("JMSXDeliveryCount"));
    }
    session.commit();
    nothing(consumer);
    session.close();
    nothing(plain.createConsumer(queue(plain)));
  }

  void closedTransactedSessionRollsBack() throws JMSException {
    Session plain = session();
    send(plain, queue(plain), "kept");
    Session session = session(Session.SESSION_TRANSACTED);
    expect("kept", text(session.createConsumer(queue(session))));
    send(session, queue(session), "never sent");
    session.close();
    MessageConsumer consumer = plain.createConsumer(queue(plain));
    expect("kept", text(consumer));
    nothing(consumer);
  }

  void clientAcknowledge() throws JMSException {
    Session plain = session();
    send(plain, queue(plain), "a", "b", "c");
    Session session = session(Session.CLIENT_ACKNOWLEDGE);
    MessageConsumer consumer = session.createConsumer(queue(session));
    expect("a", text(consumer));
    Message second = consumer.receive(LIMIT_MS);
    second.acknowledge();
    session.close();
    MessageConsumer again = plain.createConsumer(queue(plain));
    expect("c", text(again));
    nothing(again);
  }

  void recover() throws JMSException {
    Session plain = session();
    send(plain, queue(plain), "a", "b");
    Session session = session(Session.CLIENT_ACKNOWLEDGE);
    MessageConsumer consumer = session.createConsumer(queue(session));
    expect("a", text(consumer));
    expect("b", text(consumer));
    session.recover();
    Message first = consumer.receive(LIMIT_MS);
    expect(true, first.getJMSRedelivered());
    expect("b", text(consumer));
    first.acknowledge();
    session.close();
    nothing(plain.createConsumer(queue(plain)));
  }

  void dupsOkAcknowledge() throws JMSException {
    Session plain = session();
    send(plain, queue(plain), "a", "b");
    Session session = session(Session.DUPS_OK_ACKNOWLEDGE);
    MessageConsumer consumer = session.createConsumer(queue(session));
    expect("a", text(consumer));
    expect("b", text(consumer));
    session.close();
    nothing(plain.createConsumer(queue(plain)));
  }

  void individualAcknowledge() throws JMSException {
    Session plain = session();
    send(plain, queue(plain), "a", "b", "c");
    Session session = session(101); // Qpid JMS: each message for itself
    MessageConsumer consumer = session.createConsumer(queue(session));
    expect("a", text(consumer));
    Message second = consumer.receive(LIMIT_MS);
    expect("c", text(consumer));
    second.acknowledge();
    session.close();
    MessageConsumer again = plain.createConsumer(queue(plain));
    List<String> left = new ArrayList<>(List.of(text(again), text(again)));
    Collections.sort(left);
    expect(List.of("a", "c"), left);
    nothing(again);
  }

  void noAcknowledge() throws JMSException {
    Session plain = session();
    send(plain, queue(plain), "a", "b");
    Session session = session(100); // Qpid JMS: settled as they are sent
    MessageConsumer consumer = session.createConsumer(queue(session));
    expect("a", text(consumer));
    expect("b", text(consumer));
    session.close();
    nothing(plain.createConsumer(queue(plain)));
  }

  /** What an application says of a message by JMS_AMQP_ACK_TYPE: released comes back, failed comes back counted. */
  void acknowledgeTypes() throws JMSException {
    Session plain = session();
    send(plain, queue(plain), "x");
    Session session = session(101);
    MessageConsumer consumer = session.createConsumer(queue(session));
    int[] types = {3, 4, 1};
    int[] counts = {1, 1, 2};
    for (int index = 0; index < types.length; index++) {
      Message message = consumer.receive(LIMIT_MS);
      expect(counts[index], message.getIntProperty("JMSXDeliveryCount"));
      message.setIntProperty("JMS_AMQP_ACK_TYPE", types[index]);
      message.acknowledge();
    }
    nothing(consumer);
  }

  void listenerThatThrows() throws Exception {
    Session plain = session();
    send(plain, queue(plain), "x");
    CountDownLatch latch = new CountDownLatch(3);
    Session session = session();
    session
        .createConsumer(queue(session))
        .setMessageListener(
            message -> {
              latch.countDown();
              if (latch.getCount() > 0) {
                throw new IllegalStateException("not yet");
              }
            });
    expect(true, latch.await(LIMIT_MS, TimeUnit.MILLISECONDS));
    session.close();
    nothing(plain.createConsumer(queue(plain)));
  }

  void compositeDestination() throws JMSException {
    Session session = session();
    Queue one = session.createQueue("jms." + name + ".one");
    Queue two = session.createQueue("jms." + name + ".two");
    send(session, session.createQueue(one.getQueueName() + "," + two.getQueueName()), "to both");
    expect("to both", text(session.createConsumer(one)));
    expect("to both", text(session.createConsumer(two)));
  }

  void deadLetter() throws JMSException {
    Session session = session(Session.CLIENT_ACKNOWLEDGE);
    send(session, queue(session), "poison");
    MessageConsumer consumer = session.createConsumer(queue(session));
    Message message = consumer.receive(LIMIT_MS);
    message.setIntProperty("JMS_AMQP_ACK_TYPE", 2);
    message.acknowledge();
    expect("poison", text(deadLetters(session())));
  }

  void redeliveryToDeadLetter() throws JMSException {
    Session session = session(Session.SESSION_TRANSACTED);
    send(session, queue(session), "retry");
    session.commit();
    MessageConsumer consumer = session.createConsumer(queue(session));
    int deliveries = 0;
    Message message;
    while ((message = consumer.receive(deliveries == 0 ? LIMIT_MS : 3_000)) != null) {
      deliveries++;
      expect(deliveries, message.getIntProperty("JMSXDeliveryCount"));
      session.rollback();
    }
    expect(7, deliveries);
    expect("retry", text(deadLetters(session())));
  }

  void selectors() throws JMSException {
    Session session = session();
    MessageProducer producer = session.createProducer(queue(session));
    for (int number = 0; number < 6; number++) {
      TextMessage message = session.createTextMessage("m" + number);
      message.setIntProperty("n", number);
      message.setStringProperty("colour", number % 2 == 0 ? "red" : "blue");
      message.setJMSType("t" + number);
      producer.send(message);
    }
    MessageConsumer red = session.createConsumer(queue(session), "colour = 'red' AND n > 1");
    expect("m2", text(red));
    expect("m4", text(red));
    nothing(red);
    red.close();
    MessageConsumer typed = session.createConsumer(queue(session), "JMSType = 't5'");
    expect("m5", text(typed));
    typed.close();
    MessageConsumer wrongType = session.createConsumer(queue(session), "n = '1'");
    nothing(wrongType);
    wrongType.close();
    try {
      session.createConsumer(queue(session), "n ==== 1");
      throw new AssertionError("a broken selector was taken");
    } catch (InvalidSelectorException expected) {
      // as it should be
    }
    MessageConsumer rest = session.createConsumer(queue(session));
    expect("m0", text(rest));
    expect("m1", text(rest));
    expect("m3", text(rest));
  }

  void topicSelector() throws JMSException {
    Session session = session();
    Topic topic = session.createTopic("jms." + name);
    MessageConsumer consumer = session.createConsumer(topic, "n > 1");
    MessageProducer producer = session.createProducer(topic);
    for (int number = 0; number < 4; number++) {
      TextMessage message = session.createTextMessage("m" + number);
      message.setIntProperty("n", number);
      producer.send(message);
    }
    expect("m2", text(consumer));
    expect("m3", text(consumer));
    nothing(consumer);
  }

  void noLocal() throws JMSException {
    Connection connection = connect("", null);
    Session session = connection.createSession(Session.AUTO_ACKNOWLEDGE);
    Topic topic = session.createTopic("jms." + name);
    MessageConsumer consumer = session.createConsumer(topic, null, true);
    send(session, topic, "mine");
    Session other = session();
    send(other, topic, "theirs");
    expect("theirs", text(consumer));
    nothing(consumer);
  }

  void durableSubscription() throws JMSException {
    String client = "durable-client";
    Connection connection = connect("", client);
    Session session = connection.createSession(Session.AUTO_ACKNOWLEDGE);
    Topic topic = session.createTopic("jms." + name);
    MessageConsumer consumer = session.createDurableConsumer(topic, "sub");
    Session sender = session();
    send(sender, topic, "live");
    expect("live", text(consumer));
    connection.close();
    send(sender, topic, "kept one", "kept two");
    Connection again = connect("", client);
    Session later = again.createSession(Session.AUTO_ACKNOWLEDGE);
    MessageConsumer resumed = later.createDurableConsumer(topic, "sub");
    expect("kept one", text(resumed));
    expect("kept two", text(resumed));
    try {
      later.unsubscribe("sub");
      throw new AssertionError("a subscription in use was deleted");
    } catch (JMSException expected) {
      // as it should be
    }
    resumed.close();
    send(sender, topic, "never seen");
    later.unsubscribe("sub");
    try {
      later.unsubscribe("sub");
      throw new AssertionError("a subscription that is gone was deleted");
    } catch (InvalidDestinationException expected) {
      // as it should be
    }
    MessageConsumer fresh = later.createDurableConsumer(topic, "sub");
    nothing(fresh);
    fresh.close();
    later.unsubscribe("sub");
  }

  void sharedSubscription() throws JMSException {
    Session session = session();
    Topic topic = session.createTopic("jms." + name);
    MessageConsumer one = session.createSharedConsumer(topic, "shared");
    MessageConsumer other = session().createSharedConsumer(topic, "shared");
    send(session, topic, numbered(10));
    // The credit of one may come after the first messages of the other connection: who gets how many is not said.
    List<String> seen = new ArrayList<>();
    long deadline = System.currentTimeMillis() + LIMIT_MS;
    while (seen.size() < 10 && System.currentTimeMillis() < deadline) {
      for (MessageConsumer consumer : List.of(one, other)) {
        Message message = consumer.receiveNoWait();
        if (message != null) {
          seen.add(((TextMessage) message).getText());
        }
      }
    }
    Collections.sort(seen);
    List<String> expected = new ArrayList<>(Arrays.asList(numbered(10)));
    Collections.sort(expected);
    expect(expected, seen);
    nothing(one);
    nothing(other);
  }

  void sharedDurableSubscription() throws JMSException {
    Session session = session();
    Topic topic = session.createTopic("jms." + name);
    session.createSharedDurableConsumer(topic, "sharedDurable").close();
    send(session, topic, numbered(4));
    MessageConsumer one = session.createSharedDurableConsumer(topic, "sharedDurable");
    for (String text : numbered(4)) {
      expect(text, text(one));
    }
    one.close();
    session.unsubscribe("sharedDurable");
  }

  void requestReply() throws JMSException {
    Session server = session();
    MessageConsumer requests = server.createConsumer(queue(server));
    requests.setMessageListener(
        request -> {
          try {
            TextMessage answer = server.createTextMessage("answer to " + ((TextMessage) request).getText());
            answer.setJMSCorrelationID(request.getJMSMessageID());
            server.createProducer(null).send(request.getJMSReplyTo(), answer);
          } catch (JMSException error) {
            throw new IllegalStateException(error);
          }
        });
    Session client = session();
    TemporaryQueue replies = client.createTemporaryQueue();
    MessageConsumer consumer = client.createConsumer(replies);
    MessageProducer producer = client.createProducer(queue(client));
    for (int number = 0; number < 5; number++) {
      TextMessage request = client.createTextMessage("r" + number);
      request.setJMSReplyTo(replies);
      producer.send(request);
      Message answer = consumer.receive(LIMIT_MS);
      expect("answer to r" + number, ((TextMessage) answer).getText());
      expect(request.getJMSMessageID(), answer.getJMSCorrelationID());
    }
    consumer.close();
    replies.delete();
    TemporaryTopic topic = client.createTemporaryTopic();
    MessageConsumer listener = client.createConsumer(topic);
    send(client, topic, "to a temporary topic");
    expect("to a temporary topic", text(listener));
  }

  void browser() throws JMSException {
    Session session = session();
    send(session, queue(session), numbered(5));
    QueueBrowser browser = session.createBrowser(queue(session));
    List<String> seen = new ArrayList<>();
    for (Object message : Collections.list(browser.getEnumeration())) {
      seen.add(((TextMessage) message).getText());
    }
    expect(Arrays.asList(numbered(5)), seen);
    browser.close();
    MessageConsumer consumer = session.createConsumer(queue(session));
    for (String text : numbered(5)) {
      expect(text, text(consumer));
    }
    nothing(consumer);
  }

  void deliveryDelay() throws JMSException {
    Session session = session();
    MessageProducer producer = session.createProducer(queue(session));
    producer.setDeliveryDelay(1_500);
    producer.send(session.createTextMessage("later"));
    producer.setDeliveryDelay(0);
    producer.send(session.createTextMessage("now"));
    MessageConsumer consumer = session.createConsumer(queue(session));
    expect("now", text(consumer));
    nothing(consumer);
    expect("later", text(consumer));
  }

  void timeToLive() throws Exception {
    Session session = session();
    MessageProducer producer = session.createProducer(queue(session));
    producer.setTimeToLive(200);
    producer.send(session.createTextMessage("gone"));
    producer.setTimeToLive(0);
    producer.send(session.createTextMessage("stays"));
    Thread.sleep(500);
    MessageConsumer consumer = session.createConsumer(queue(session));
    expect("stays", text(consumer));
    nothing(consumer);
  }

  void priorities() throws JMSException {
    Session session = session();
    MessageProducer producer = session.createProducer(queue(session));
    for (int priority : new int[] {1, 9, 4}) {
      producer.setPriority(priority);
      producer.send(session.createTextMessage("p" + priority));
    }
    MessageConsumer consumer = session.createConsumer(queue(session));
    expect("p9", text(consumer));
    expect("p4", text(consumer));
    expect("p1", text(consumer));
  }

  void prefetchZero() throws JMSException {
    prefetch(0);
  }

  void prefetchOne() throws JMSException {
    prefetch(1);
  }

  void prefetchThousand() throws JMSException {
    prefetch(1_000);
  }

  private void prefetch(int count) throws JMSException {
    Session sender = session();
    send(sender, queue(sender), numbered(6));
    Session session =
        connect("jms.prefetchPolicy.all=" + count, null).createSession(Session.AUTO_ACKNOWLEDGE);
    MessageConsumer first = session.createConsumer(queue(session));
    expect("m0", text(first));
    // What the first does not hold, another one gets, once the first has asked for all that it wants.
    nothing(session().createConsumer(sender.createQueue("jms." + name + ".empty")));
    MessageConsumer other = sender.createConsumer(queue(sender));
    if (count == 0) {
      expect("m1", text(other));
      other.close();
      expect("m2", text(first));
      expect("m3", ((TextMessage) first.receiveNoWait()).getText());
      expect("m4", text(first));
      expect("m5", text(first));
      expect(null, first.receiveNoWait());
    } else if (count == 1) {
      expect("m2", text(other));
      expect("m1", text(first));
    } else {
      nothing(other);
      for (int number = 1; number < 6; number++) {
        expect("m" + number, text(first));
      }
    }
  }

  void listener() throws Exception {
    Session session = session();
    CountDownLatch latch = new CountDownLatch(20);
    session.createConsumer(queue(session)).setMessageListener(message -> latch.countDown());
    Session sender = session();
    send(sender, queue(sender), numbered(20));
    expect(true, latch.await(LIMIT_MS, TimeUnit.MILLISECONDS));
  }

  void uniqueClientId() throws JMSException {
    connect("", "only-one");
    try {
      connect("", "only-one");
      throw new AssertionError("two connections have one client id");
    } catch (InvalidClientIDException expected) {
      // as it should be
    }
    close();
    connect("", "only-one");
  }

  void largeMessage() throws JMSException {
    Session session = session();
    byte[] body = new byte[3_000_000];
    Arrays.fill(body, (byte) 7);
    BytesMessage message = session.createBytesMessage();
    message.writeBytes(body);
    session.createProducer(queue(session)).send(message);
    BytesMessage got = (BytesMessage) session.createConsumer(queue(session)).receive(LIMIT_MS);
    expect((long) body.length, got.getBodyLength());
  }

  void redeliveryPolicy() throws JMSException {
    Session plain = session();
    send(plain, queue(plain), "bad");
    Connection connection = connect("jms.redeliveryPolicy.maxRedeliveries=1", null);
    Session session = connection.createSession(Session.SESSION_TRANSACTED);
    MessageConsumer consumer = session.createConsumer(queue(session));
    for (int attempt = 0; attempt < 2; attempt++) {
      expect("bad", text(consumer));
      session.rollback();
    }
    // The third time the client hides it and answers modified, undeliverable here: another consumer may have it.
    nothing(consumer);
    Session other = session();
    Message message = other.createConsumer(queue(other)).receive(LIMIT_MS);
    expect("bad", ((TextMessage) message).getText());
    expect(4, message.getIntProperty("JMSXDeliveryCount"));
    nothing(consumer);
  }

  void wrongPassword() throws JMSException {
    try {
      new JmsConnectionFactory("alice", "wrong", uri).createConnection().start();
      throw new AssertionError("a wrong password was taken");
    } catch (JMSSecurityException expected) {
      // as it should be
    }
    Connection connection = new JmsConnectionFactory("alice", "secret", uri).createConnection();
    connections.add(connection);
    connection.start();
    send(connection.createSession(), queue(connection.createSession()), "x");
  }

  /** The test passes the token.  Beside users with passwords the client would choose SCRAM for it. */
  void tokenAsPassword() throws JMSException {
    String token = System.getProperty("token");
    for (String mechanism : new String[] {"PLAIN", "XOAUTH2"}) {
      String address = uri + "?amqp.saslMechanisms=" + mechanism;
      try {
        String wrong = token.substring(0, token.lastIndexOf('.')) + ".AAAA";
        new JmsConnectionFactory("ann", wrong, address).createConnection().start();
        throw new AssertionError("a wrong token was taken");
      } catch (JMSSecurityException expected) {
        // as it should be
      }
      Connection connection = new JmsConnectionFactory("ann", token, address).createConnection();
      connections.add(connection);
      connection.start();
      Session session = connection.createSession();
      send(session, queue(session), "x");
      MessageConsumer consumer = session.createConsumer(queue(session));
      expect("x", text(consumer));
      consumer.close();
    }
  }

  /** The address takes 100 kB and BLOCKs then: the producer waits for credit, and goes on once there is room. */
  void blockedProducer() throws Exception {
    int count = 100;
    Session sender = session();
    AtomicInteger sent = new AtomicInteger();
    List<Exception> failures = Collections.synchronizedList(new ArrayList<>());
    Thread thread =
        new Thread(
            () -> {
              try {
                MessageProducer producer = sender.createProducer(queue(sender));
                for (int number = 0; number < count; number++) {
                  BytesMessage message = sender.createBytesMessage();
                  message.writeBytes(new byte[5_000]);
                  producer.send(message);
                  sent.incrementAndGet();
                }
              } catch (JMSException error) {
                failures.add(error);
              }
            });
    thread.start();
    int before;
    do {
      before = sent.get();
      Thread.sleep(2 * QUIET_MS);
    } while (before == 0 || sent.get() > before);
    expect(true, before >= 15 && before <= 25);
    Session receiving = session();
    MessageConsumer consumer = receiving.createConsumer(queue(receiving));
    for (int number = 0; number < count; number++) {
      expect(true, consumer.receive(LIMIT_MS) != null);
    }
    thread.join(LIMIT_MS);
    expect(List.of(), failures);
    expect(count, sent.get());
    nothing(consumer);
  }

  /** The test stops the gateway: the exception listener hears of it, and everything is closed. */
  void exceptionListener() throws Exception {
    Connection connection = connect("", null);
    Session session = connection.createSession(Session.AUTO_ACKNOWLEDGE);
    MessageConsumer consumer = session.createConsumer(queue(session));
    CountDownLatch heard = new CountDownLatch(1);
    List<JMSException> errors = Collections.synchronizedList(new ArrayList<>());
    connection.setExceptionListener(
        error -> {
          errors.add(error);
          heard.countDown();
        });
    System.out.println("ready");
    System.out.flush();
    expect(true, heard.await(LIMIT_MS, TimeUnit.MILLISECONDS));
    expect(1, errors.size());
    expect(true, errors.get(0).getMessage().contains("the gateway is shutting down"));
    try {
      consumer.receive(LIMIT_MS);
      throw new AssertionError("a consumer outlives its connection");
    } catch (JMSException expected) {
      // as it should be
    }
  }

  /** The gateway stops between the first message and the others, and waits for what this consumer holds. */
  void drained() throws Exception {
    Session session = connect("jms.prefetchPolicy.all=10", null).createSession(Session.AUTO_ACKNOWLEDGE);
    for (int number = 0; number < 20; number++) {
      send(session, queue(session), "m" + number);
    }
    MessageConsumer consumer = session.createConsumer(queue(session));
    expect("m0", text(consumer));
    System.out.println("ready");
    System.out.flush();
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
  }

  /** Prints each step: the test kills and restarts the gateway in between. */
  void reconnect() throws Exception {
    String failover = "failover:(" + uri + ")?failover.reconnectDelay=100&failover.maxReconnectAttempts=-1";
    Connection connection = new JmsConnectionFactory(failover).createConnection();
    connections.add(connection);
    connection.start();
    Session session = connection.createSession(Session.AUTO_ACKNOWLEDGE);
    MessageProducer producer = session.createProducer(queue(session));
    producer.send(session.createTextMessage("before"));
    System.out.println("ready");
    System.out.flush();
    System.in.read();
    producer.send(session.createTextMessage("after"));
    MessageConsumer consumer = session.createConsumer(queue(session));
    expect("before", text(consumer));
    expect("after", text(consumer));
  }
}
