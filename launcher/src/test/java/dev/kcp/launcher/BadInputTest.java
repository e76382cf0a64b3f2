package dev.kcp.launcher;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import picocli.CommandLine;

/** What a newcomer mistypes: one line that names the option as it is typed, the value, and what would be right. */
class BadInputTest {
    private final StringWriter err = new StringWriter();

    @TempDir
    private Path folder;

    @BeforeEach
    void makeFiles() throws Exception {
        Files.writeString(folder.resolve("text"), "some text\n");
        Files.writeString(folder.resolve("fragments"), "[[[0,0,5]]]");
    }

    /** Runs the words of a line; {@code @} stands for the folder. */
    private int run(String line) {
        String[] words = line.replace("@", folder.toString()).split(" ");
        CommandLine kcp = Main.commandLine(Map.of(), words);
        kcp.setErr(new PrintWriter(err, true));
        return Main.run(kcp, words);
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', textBlock = """
            trian                                             | 2 | no such command: trian; did you mean train? (see kcp --help)
            nothing-like-it                                   | 2 | no such command: nothing-like-it (see kcp --help)
            plan --lengths 5 --worlds 2                       | 2 | no such option: --worlds; did you mean --world? (see kcp plan --help)
            plan --lengths 5 --wrold=2                        | 2 | no such option: --wrold=2; did you mean --world? (see kcp plan --help)
            plan --lengths 5 --world two                      | 2 | --world must be a whole number: world=two (see kcp plan --help)
            plan --lengths 5 --world 99999999999              | 2 | --world must be a smaller number: world=99999999999 (see kcp plan --help)
            plan --lengths 5 --world 0                        | 2 | --world must be from 1 to 4096: world=0
            plan --lengths 5 --align 0                        | 2 | --align must be at least 1: align=0
            plan --lengths 5 --channels 7                     | 2 | --channels must be a positive multiple of 8: channels=7
            plan --lengths 5,x                                | 2 | --lengths takes N or NxCOUNT separated by commas, N up to 2147483647: length=x
            plan --lengths 5,-1                               | 2 | a length is negative: lengths[1]=-1
            plan                                              | 2 | no documents are given: use --lengths N,N,... or --cu-seqlens FILE (see kcp plan --help)
            plan --lengths 5 --cu-seqlens f                   | 2 | --lengths and --cu-seqlens exclude each other: lengths=5 cu-seqlens=f
            plan --lengths                                    | 2 | --lengths needs a value: --lengths N[xCOUNT] (see kcp plan --help)
            plan --lengths 5 --svg @                          | 3 | --svg cannot be written, it is a folder: svg=@
            plan --lengths 5 --json @/no/f                    | 3 | --json cannot be written, its folder does not exist: json=@/no/f
            plan --lengths 5 --fragments @/no                 | 3 | @/no: does not exist
            plan --lengths 5 --fragments @/fragments --align 4 | 2 | --fragments takes the place of --align, leave one out: fragments=@/fragments
            conv                                              | 2 | --in FILE and --out FILE are missing (see kcp conv --help)
            conv --compare f                                  | 2 | --compare takes 2 values: given=1 (see kcp conv --help)
            conv f g                                          | 2 | unexpected argument: f (see kcp conv --help)
            conv --in @/text --out @/text                     | 2 | --out would overwrite the file of --in: in=@/text out=@/text
            conv --in @/text --out @/new --handle             | 2 | --handle needs --backward, which recomputes: handle=true backward=false
            conv --in @/text --out @/new --device gpu         | 2 | --device must be one of cpu, cuda: device=gpu (see kcp conv --help)
            train                                             | 2 | --data PATH is missing (see kcp train --help)
            train --data @/text --step 9                      | 2 | no such option: --step; did you mean --steps? (see kcp train --help)
            train --data @/text --tokens 0                    | 2 | --tokens must be at least 1: tokens=0
            train --data @/text --clip 0                      | 2 | --clip must be above 0: clip=0.0
            train --data @/text --clip much                   | 2 | --clip must be a number: clip=much (see kcp train --help)
            train --data @/text --same-bits --align 3         | 2 | --same-bits needs --align to be a multiple of 64: align=3
            train --data @/text --resume                      | 2 | --resume needs --save DIR: save=none
            train --data @/text --save @/s --keep 0           | 2 | --keep must be at least 1: keep=0
            train --data @/text --report @                    | 3 | --report cannot be written, it is a folder: report=@
            train --data @/text --loss-log @                  | 3 | --loss-log cannot be written, it is a folder: loss-log=@
            run -n 0 -- true                                  | 2 | -n must be from 1 to 4096: n=0
            run -n some -- true                               | 2 | -n must be a whole number, gpu or auto: n=some
            run -n 2 --timeout 0 -- true                      | 2 | --timeout must be above 0: timeout=0.0
            run -n 2 --log-dir @/text -- true                 | 3 | --log-dir cannot be made, it is a file: log-dir=@/text
            run -n 2 --error-file @/no/f -- true              | 3 | --error-file cannot be written, its folder does not exist: error-file=@/no/f
            bench forward backward                            | 2 | one run times one operation; leave out the rest: OP=[forward, backward] (see kcp bench --help)
            bench forward --iterations 0                      | 2 | --iterations must be at least 1: iterations=0
            bench exchange --sizes 6                          | 2 | --sizes must be positive multiples of 4 bytes: size=6
            bench forward --json @/no/f                       | 3 | --json cannot be written, its folder does not exist: json=@/no/f
            """)
    void isOneLineWithOptionValueAndWhatToDo(String line, int code, String message) {
        assertThat(run(line)).isEqualTo(code);
        assertThat(err.toString().lines())
                .singleElement()
                .asString()
                .matches("kcp( \\w+)?: .*")
                .endsWith(": " + message.replace("@", folder.toString()));
    }

    @Test
    void theInputIsNotTouchedByARefusedRun() throws Exception {
        run("conv --in @/text --out @/text");
        assertThat(folder.resolve("text")).hasContent("some text\n");
    }
}
