package dev.kcp.nccl;

import static org.assertj.core.api.Assertions.assertThat;

import dev.kcp.cuda.KernelText;
import dev.kcp.cuda.KernelText.Entry;
import dev.kcp.cuda.KernelText.Member;
import dev.kcp.nccl.DeviceVerdict.Word;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** What the kernels of mailboxes and headers and their host must say alike. */
class MailMirrorTest {
    private static final KernelText MAIL = KernelText.of(PeerMail.class, "mail");
    private static final KernelText HEADERS = KernelText.of(MessageHeaders.class, "headers");

    @Test
    void mailboxesHaveTheSameSizes() {
        assertThat(MAIL.constant("kLaneBytes")).isEqualTo(PeerMail.LANE_BYTES);
        assertThat(MAIL.constant("kLanes")).isEqualTo(PeerMail.LANES);
        assertThat(MAIL.constant("kSlots")).isEqualTo(PeerMail.SLOTS);
        assertThat(MAIL.constant("kParcels")).isEqualTo(PeerMail.PARCELS);
        assertThat(MAIL.offset("Box", "data")).isEqualTo(PeerMail.HEAD_BYTES);
        assertThat(MAIL.bytes("Box")).isEqualTo(PeerMail.BOX_BYTES);
    }

    @Test
    void anExchangeListsItsParcelsAsTheKernelReadsThem() {
        assertThat(names(MAIL, "MailArgs"))
                .containsExactly("outgoing", "parcels", "digest", "stop", "verdict", "parcel");
        assertThat(MAIL.offset("MailArgs", "parcel")).isEqualTo((long) PeerMail.HEAD_WORDS * Long.BYTES);
        assertThat(names(MAIL, "Parcel"))
                .containsExactly("memory", "bytes", "mine", "theirs", "firstLane", "firstBlock", "peer");
        assertThat(MAIL.bytes("Parcel")).isEqualTo((long) PeerMail.PARCEL_WORDS * Long.BYTES);
        assertThat(MAIL.entries().values())
                .containsExactly(new Entry("mail_exchange", PeerMail.BLOCK_THREADS, "MailArgs"));
    }

    @Test
    void headersHaveTheSameFields() {
        assertThat(HEADERS.constant("kMaskWords")).isEqualTo(MessageHeaders.MASK_WORDS);
        assertThat(HEADERS.bytes("Header")).isEqualTo(MessageHeaders.BYTES);
        assertThat(names(HEADERS, "HeaderArgs"))
                .containsExactly("to", "from", "outgoing", "incoming", "expected", "digest", "verdict");
        assertThat(HEADERS.offset("HeaderArgs", "outgoing")).isEqualTo(2L * MessageHeaders.MASK_WORDS * Long.BYTES);
        assertThat(HEADERS.bytes("HeaderArgs")).isEqualTo((long) MessageHeaders.WORDS * Long.BYTES);
        assertThat(HEADERS.entries().values()).containsExactly(new Entry("headers_check", 0, "HeaderArgs"));
    }

    @Test
    void theVerdictsWordsAreWrittenWhereTheyAreRead() throws IOException {
        String text = Files.readString(Path.of(System.getProperty("kcp.root"), "kcp-nccl/src/main/cuda/verdict.cuh"));
        assertThat(text)
                .contains("verdict + " + Word.LOCK.ordinal())
                .contains("verdict[" + Word.EXPECTED_NUMBER.ordinal() + "] = expectedNumber;")
                .contains("verdict[" + Word.EXPECTED_DIGEST.ordinal() + "] = int64_t(expectedDigest);")
                .contains("verdict[" + Word.NUMBER.ordinal() + "] = number;")
                .contains("verdict[" + Word.DIGEST.ordinal() + "] = int64_t(digest);")
                .contains("*reinterpret_cast<volatile int64_t*>(verdict) = peer + 1;");
        assertThat(Word.PEER_PLUS_1.ordinal()).isZero();
    }

    private static List<String> names(KernelText text, String struct) {
        Stream<Member> members = text.struct(struct).stream();
        return members.map(Member::name).toList();
    }
}
