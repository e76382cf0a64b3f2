package dev.kcp.launcher;

import java.util.List;
import java.util.Locale;
import java.util.Map;
import picocli.CommandLine.IDefaultValueProvider;
import picocli.CommandLine.Model.ArgSpec;
import picocli.CommandLine.Model.OptionSpec;
import picocli.CommandLine.ParameterException;

/** Takes options of {@code kcp run} that were not given from the environment: {@code --log-dir} from KCP_RUN_LOG_DIR. */
final class EnvironmentDefaults implements IDefaultValueProvider {
    static final String PREFIX = "KCP_RUN_";

    private final Map<String, String> environment;

    EnvironmentDefaults(Map<String, String> environment) {
        this.environment = environment;
    }

    @Override
    public String defaultValue(ArgSpec argument) {
        if (argument instanceof OptionSpec option && !option.isMultiValue() && !option.usageHelp()) {
            String value = environment.get(name(option.longestName()));
            if (value != null && !value.isEmpty()) {
                if (value.indexOf('\uFFFD') >= 0) {
                    throw new ParameterException(
                            argument.command().commandLine(),
                            "a variable is not UTF-8: name=" + name(option.longestName()) + " value=" + value);
                }
                return value;
            }
        }
        return null;
    }

    /** The words of an option that may be given again: {@code --env} from KCP_RUN_ENV, split at spaces. */
    List<String> words(String option, List<String> given) {
        String value = environment.getOrDefault(name(option), "").strip();
        return given.isEmpty() && !value.isEmpty() ? List.of(value.split("\\s+")) : given;
    }

    private static String name(String option) {
        return PREFIX + option.replaceFirst("^-+", "").replace('-', '_').toUpperCase(Locale.ROOT);
    }
}
