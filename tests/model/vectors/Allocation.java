import java.util.*;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.*;
import org.apache.rocketmq.common.message.MessageQueue;

/** Writes who gets which queue under every official strategy; see README.md beside it. */
public class Allocation {
    static final String[] BROKERS = {"room1@a", "room2@b", "room1@c", "plain"};

    public static void main(String[] args) {
        AllocateMessageQueueByMachineRoom room = new AllocateMessageQueueByMachineRoom();
        room.setConsumeridcs(new HashSet<>(Arrays.asList("room1", "plain")));
        AllocateMachineRoomNearby.MachineRoomResolver resolver =
            new AllocateMachineRoomNearby.MachineRoomResolver() {
                public String brokerDeployIn(MessageQueue queue) {
                    return queue.getBrokerName().split("@")[0];
                }

                public String consumerDeployIn(String id) {
                    return id.split("@")[0];
                }
            };
        List<AllocateMessageQueueStrategy> strategies = Arrays.asList(
            new AllocateMessageQueueAveragely(),
            new AllocateMessageQueueAveragelyByCircle(),
            room,
            new AllocateMachineRoomNearby(new AllocateMessageQueueAveragely(), resolver),
            new AllocateMessageQueueConsistentHash());
        for (AllocateMessageQueueStrategy strategy : strategies)
            for (int queues = 1; queues <= 40; queues++)
                for (int clients = 1; clients <= 12; clients++)
                    System.out.println(strategy.getName() + " " + queues + " " + clients + " "
                        + owners(strategy, queues, clients));
        sorted();
    }

    static String owners(AllocateMessageQueueStrategy strategy, int queueCount, int clientCount) {
        List<MessageQueue> queues = new ArrayList<>();
        for (int i = 0; i < queueCount; i++)
            queues.add(new MessageQueue("Topic", BROKERS[i % BROKERS.length], i / BROKERS.length));
        List<String> clients = new ArrayList<>();
        for (int i = 0; i < clientCount; i++)
            clients.add("room" + (i % 3 + 1) + "@10.0.0." + i + "@77#" + i * 7919);
        Collections.sort(queues);
        Collections.sort(clients);
        char[] owners = new char[queueCount];
        Arrays.fill(owners, '-');
        for (int i = 0; i < clientCount; i++)
            for (MessageQueue queue : strategy.allocate("g", clients.get(i), queues, clients)) {
                int at = queues.indexOf(queue);
                if (owners[at] != '-') throw new IllegalStateException("two owners");
                owners[at] = Character.forDigit(i, 36);
            }
        return new String(owners);
    }

    /** Texts whose order by UTF-16 units is not the one by code points. */
    static void sorted() {
        List<String> texts = new ArrayList<>(Arrays.asList(
            "a", "A", "b1", "b10", "b2", "\u00e9", "\u57ce", "\uff21", "\uf900", "\ud83d\ude00",
            "\ud83d\udc4d", "a@1", "a#1", ""));
        Collections.sort(texts);
        for (String text : texts) {
            StringBuilder units = new StringBuilder("SORTED ");
            for (char unit : text.toCharArray()) units.append(String.format("%04x", (int) unit));
            System.out.println(units);
        }
    }
}
