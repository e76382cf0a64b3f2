package dev.kcp.launcher;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.kcp.KcpException;
import dev.kcp.launcher.Check.Need;
import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** {@code kcp doctor}: what this machine has. */
@Command(
        name = "doctor",
        mixinStandardHelpOptions = true,
        versionProvider = Version.class,
        description = {
            "Shows what this machine has and what is missing for computing on the CPU, on CUDA and over NCCL.",
            "Loads OpenBLAS once, and CUDA's binding where there is a driver, so that their files are unpacked before ranks start."
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  kcp doctor",
            "  kcp doctor --need nccl && kcp run -n gpu -- ./train",
            "",
            "Exit codes: 0 shown, and what --need asks for is there; 8 it is not."
        })
final class DoctorCommand implements Callable<Integer> {
    @Option(
            names = "--need",
            paramLabel = "NEED",
            description = "cpu, cuda or nccl: end with exit code 8 if something for it is missing.")
    private Need need;

    @Option(names = "--json", description = "Print JSON instead of a table.")
    private boolean json;

    @Spec
    private CommandSpec spec;

    private final Map<String, String> environment;

    /** @param environment this process's environment */
    DoctorCommand(Map<String, String> environment) {
        this.environment = environment;
    }

    @Override
    public Integer call() {
        List<Check> checks = new ArrayList<>(HostChecks.all(environment));
        checks.addAll(GpuChecks.all(environment));
        checks.add(HostChecks.nativeCaches());
        PrintWriter out = spec.commandLine().getOut();
        out.println(json ? json(checks) : table(checks));
        out.flush();
        if (need != null && !missing(checks, need).isEmpty()) {
            throw new KcpException(
                    KcpException.Code.MISSING_DEVICE,
                    "missing for " + word(need) + ": checks=" + missing(checks, need));
        }
        return ExitCode.DONE;
    }

    static List<String> missing(List<Check> checks, Need need) {
        return checks.stream()
                .filter(check -> check.blocks(need))
                .map(Check::name)
                .toList();
    }

    static String table(List<Check> checks) {
        int width = Math.max(
                "=> cuda".length(),
                checks.stream().mapToInt(check -> check.name().length()).max().orElse(0));
        StringBuilder text = new StringBuilder();
        for (Check check : checks) {
            text.append(String.format(
                    Locale.ROOT, "%-" + width + "s  %-7s  %s%n", check.name(), word(check.state()), check.detail()));
        }
        for (Need what : Need.values()) {
            List<String> missing = missing(checks, what);
            text.append(String.format(
                    Locale.ROOT,
                    "%-" + width + "s  %-7s  %s%n",
                    "=> " + word(what),
                    missing.isEmpty() ? "ready" : "missing",
                    String.join(", ", missing)));
        }
        return text.toString().stripTrailing();
    }

    static String json(List<Check> checks) {
        ObjectNode root = new ObjectMapper().createObjectNode();
        ObjectNode ready = root.putObject("ready");
        for (Need what : Need.values()) {
            ready.put(word(what), missing(checks, what).isEmpty());
        }
        for (Check check : checks) {
            ObjectNode entry = root.withArray("checks").addObject();
            entry.put("name", check.name());
            entry.put("state", word(check.state()));
            entry.put("detail", check.detail());
            check.needs().forEach(what -> entry.withArray("needed_for").add(word(what)));
        }
        return root.toString();
    }

    private static String word(Enum<?> constant) {
        return constant.name().toLowerCase(Locale.ROOT);
    }
}
