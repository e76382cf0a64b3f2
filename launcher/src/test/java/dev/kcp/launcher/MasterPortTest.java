package dev.kcp.launcher;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.launcher.MasterPort.Range;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.Test;

class MasterPortTest {
    private static int freeNumber() {
        try (MasterPort port = MasterPort.claim()) {
            return port.number();
        }
    }

    /** Case 84: a port that the launcher chooses. */
    @Test
    void takenPortsAndThoseOfOtherJobsArePassedOver() throws Exception {
        int number = freeNumber();
        try (ServerSocket busy = new ServerSocket(0, 1, InetAddress.getByName("127.0.0.1"));
                MasterPort ofAnotherJob = MasterPort.claim()) {
            Iterator<Integer> candidates =
                    List.of(busy.getLocalPort(), ofAnotherJob.number(), number).iterator();
            try (MasterPort claimed = MasterPort.claim(candidates::next).orElseThrow()) {
                assertThat(claimed.number()).isEqualTo(number);
            }
            assertThat(MasterPort.claim(busy::getLocalPort)).isEmpty();
        }
    }

    @Test
    void theSystemGivesThePortToNobodyAndRankZeroMayListenThere() throws Exception {
        Range system = MasterPort.systemRange().orElseThrow();
        try (MasterPort port = MasterPort.claim()) {
            if (MasterPort.outside(Optional.of(system)).isPresent()) {
                assertThat(port.number()).matches(number -> number < system.first() || number > system.last());
            }
            try (ServerSocket rank0 = new ServerSocket()) {
                rank0.setReuseAddress(false);
                rank0.bind(new java.net.InetSocketAddress(port.number()));
                assertThat(rank0.getLocalPort()).isEqualTo(port.number());
            }
        }
    }

    @Test
    void jobsAtOnceGetDifferentPorts() {
        List<MasterPort> ports = new ArrayList<>();
        Set<Integer> numbers = new HashSet<>();
        try {
            for (int job = 0; job < 40; job++) {
                ports.add(MasterPort.claim());
                numbers.add(ports.getLast().number());
            }
        } finally {
            ports.forEach(MasterPort::close);
        }
        assertThat(numbers).hasSize(40);
    }

    @Test
    void portsLieBesideTheSystemsOwn() {
        assertThat(MasterPort.outside(Optional.of(new Range(32768, 60999)))).contains(new Range(20768, 32767));
        assertThat(MasterPort.outside(Optional.of(new Range(10240, 40000)))).contains(new Range(40001, 52000));
        assertThat(MasterPort.outside(Optional.of(new Range(1024, 65535)))).isEmpty();
        assertThat(MasterPort.outside(Optional.empty())).isEmpty();
    }
}
