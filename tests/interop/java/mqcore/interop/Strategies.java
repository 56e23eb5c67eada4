package mqcore.interop;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByConfig;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.message.MessageQueue;

/** The official strategies by name, with machine rooms and lists as the tests choose them. */
final class Strategies {
    private Strategies() {
    }

    static AllocateMessageQueueStrategy of(Call call) {
        return switch (call.text("strategy", "AVG")) {
            case "AVG" -> new AllocateMessageQueueAveragely();
            case "AVG_BY_CIRCLE" -> new AllocateMessageQueueAveragelyByCircle();
            case "CONSISTENT_HASH" -> new AllocateMessageQueueConsistentHash();
            case "CONFIG" -> byConfig(call);
            case "MACHINE_ROOM" -> byMachineRoom(call);
            case "MACHINE_ROOM_NEARBY-AVG" -> new AllocateMachineRoomNearby(
                new AllocateMessageQueueAveragely(), new MachineRooms());
            default -> throw new IllegalArgumentException(call.text("strategy"));
        };
    }

    /** The queues `listed=0,2` of the broker `broker`. */
    private static AllocateMessageQueueStrategy byConfig(Call call) {
        List<MessageQueue> queues = new ArrayList<>();
        for (String id : call.text("listed").split(",")) {
            queues.add(new MessageQueue(
                call.text("topic"), call.text("broker"), Integer.parseInt(id)));
        }
        AllocateMessageQueueByConfig strategy = new AllocateMessageQueueByConfig();
        strategy.setMessageQueueList(queues);
        return strategy;
    }

    /** The machine room `machine_room`, which brokers have before the `@` of their names. */
    private static AllocateMessageQueueStrategy byMachineRoom(Call call) {
        AllocateMessageQueueByMachineRoom strategy = new AllocateMessageQueueByMachineRoom();
        strategy.setConsumeridcs(Set.of(call.text("machine_room")));
        return strategy;
    }

    /** The machine room of a queue is its id modulo three, that of a client its last letter. */
    private static final class MachineRooms
            implements AllocateMachineRoomNearby.MachineRoomResolver {
        @Override
        public String brokerDeployIn(MessageQueue queue) {
            return Integer.toString(queue.getQueueId() % 3);
        }

        @Override
        public String consumerDeployIn(String clientId) {
            return clientId.endsWith("0") ? "0" : "1";
        }
    }
}
