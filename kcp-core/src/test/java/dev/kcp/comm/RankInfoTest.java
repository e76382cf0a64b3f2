package dev.kcp.comm;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class RankInfoTest {
    private static Map<String, String> launched() {
        return new HashMap<>(Map.of(
                "RANK", "2",
                "WORLD_SIZE", "4",
                "LOCAL_RANK", "0",
                "LOCAL_WORLD_SIZE", "2",
                "MASTER_ADDR", "node0",
                "MASTER_PORT", "29500"));
    }

    @Test
    void noRankMeansNoJob() {
        assertThat(RankInfo.fromEnvironment(Map.of("WORLD_SIZE", "4", "HOME", "/root")))
                .isEmpty();
    }

    @Test
    void readsWhatTorchrunSets() {
        RankInfo me = RankInfo.fromEnvironment(launched()).orElseThrow();
        assertThat(me).isEqualTo(new RankInfo(2, 0, 4, 2, "node0", 29500, null, "", ""));
        assertThat(me.meetingPlace()).isEqualTo(new HostAndPort("node0", 29500));
    }

    @Test
    void readsWhatTheLauncherSets() {
        Map<String, String> env = launched();
        env.put("KCP_STORE", "[::1]:4000");
        env.put("KCP_JOB_ID", "job-7");
        env.put("KCP_SECRET", "hush");
        RankInfo me = RankInfo.fromEnvironment(env).orElseThrow();
        assertThat(me.meetingPlace()).isEqualTo(new HostAndPort("::1", 4000));
        assertThat(me.jobId()).isEqualTo("job-7");
        assertThat(me.secret()).isEqualTo("hush");
        assertThat(me.toString()).contains("job-7").doesNotContain("hush");
    }

    @Test
    void theLocalPairDefaultsToTheWholeJob() {
        Map<String, String> env = launched();
        env.keySet().removeIf(name -> name.startsWith("LOCAL_"));
        RankInfo me = RankInfo.fromEnvironment(env).orElseThrow();
        assertThat(me.localRank()).isEqualTo(2);
        assertThat(me.localWorldSize()).isEqualTo(4);
    }

    @ParameterizedTest
    @CsvSource({
        "RANK,4,RANK=4",
        "RANK,-1,RANK=-1",
        "RANK,two,RANK=two",
        "RANK,'',RANK=",
        "WORLD_SIZE,,WORLD_SIZE=null",
        "WORLD_SIZE,0,WORLD_SIZE=0",
        "LOCAL_RANK,2,LOCAL_RANK=2",
        "LOCAL_WORLD_SIZE,9,LOCAL_WORLD_SIZE=9",
        "MASTER_ADDR,,MASTER_ADDR=null",
        "MASTER_PORT,,MASTER_PORT=0",
        "MASTER_PORT,65536,MASTER_PORT=65536",
        "MASTER_PORT,29500x,MASTER_PORT=29500x",
        "KCP_STORE,localhost,KCP_STORE=localhost",
        "KCP_STORE,localhost:x,KCP_STORE=localhost:x",
        "KCP_STORE,localhost:0,KCP_STORE=localhost:0"
    })
    void impossibleSetsAreRefusedByName(String name, String value, String said) {
        Map<String, String> env = launched();
        if (value == null) {
            env.remove(name);
        } else {
            env.put(name, value);
        }
        assertThatIllegalArgumentException()
                .isThrownBy(() -> RankInfo.fromEnvironment(env))
                .withMessageContaining(said);
    }
}
