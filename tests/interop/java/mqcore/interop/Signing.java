package mqcore.interop;

import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.remoting.RPCHook;

/** What a client signs its requests with: the fields `access_key` and `secret_key` of a call. */
final class Signing {
    private Signing() { }

    /** Returns null without them. */
    static RPCHook of(Call call) {
        String key = call.text("access_key", "");
        return key.isEmpty() ? null
            : new AclClientRPCHook(new SessionCredentials(key, call.text("secret_key")));
    }
}
