package dev.kcp.launcher;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Locale;
import java.util.regex.MatchResult;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import picocli.CommandLine;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.UnmatchedArgumentException;

/** What is wrong with a command line, in the words of its user rather than of the parser. */
final class UsageLine {
    private static final Pattern CHOICE = Pattern.compile(
            "Invalid value for option '([^']+)'.*: expected one of \\[(.*)] \\(case-insensitive\\) but was '(.*)'");
    private static final Pattern NUMBER =
            Pattern.compile("Invalid value for option '([^']+)'.*: '(.*)' is not an? (int|long|double)");
    private static final Pattern EMPTY_PATH =
            Pattern.compile("Invalid value for option '([^']+)'.*a path is empty: path=.*");
    private static final Pattern NO_VALUE =
            Pattern.compile("Missing required parameter for option '([^']+)'[^(]*\\((.*)\\)");
    private static final Pattern FEW_VALUES =
            Pattern.compile("option '([^']+)'.* requires at least (\\d+) values, but only (\\d+) were specified.*");
    private static final Pattern MISSING = Pattern.compile("Missing required (?:options?|parameters?): (.*)");
    private static final Pattern OPTION = Pattern.compile("'(-[^']+)'");
    private static final Pattern QUOTED = Pattern.compile("'([^'=]+)=?([^']*)'");

    /** A word that differs in more letters than this is another word. */
    private static final int MOST_SLIPS = 2;

    private UsageLine() {}

    static String of(ParameterException wrong) {
        if (wrong instanceof UnmatchedArgumentException unmatched) {
            return ofUnmatched(unmatched);
        }
        String text = wrong.getMessage();
        Matcher match = CHOICE.matcher(text);
        if (match.matches()) {
            return match.group(1) + " must be one of " + match.group(2).toLowerCase(Locale.ROOT) + ": "
                    + OptionRange.name(match.group(1)) + "=" + match.group(3);
        }
        match = NUMBER.matcher(text);
        if (match.matches()) {
            return match.group(1) + " must be a " + kind(match.group(3), match.group(2)) + ": "
                    + OptionRange.name(match.group(1)) + "=" + match.group(2);
        }
        match = EMPTY_PATH.matcher(text);
        if (match.matches()) {
            return match.group(1) + " is an empty path: " + OptionRange.name(match.group(1)) + "=";
        }
        match = NO_VALUE.matcher(text);
        if (match.matches()) {
            return match.group(1) + " needs a value: " + match.group(1) + " " + match.group(2);
        }
        match = FEW_VALUES.matcher(text);
        if (match.matches()) {
            return match.group(1) + " takes " + match.group(2) + " values: given=" + match.group(3);
        }
        match = MISSING.matcher(text);
        return match.matches() ? missing(match.group(1)) : text;
    }

    private static String kind(String type, String text) {
        if (type.equals("double")) {
            return "number";
        }
        return text.matches("[+-]?\\d+") ? "smaller number" : "whole number";
    }

    /** {@code '--in=FILE', '--out=FILE'} in other words. */
    private static String missing(String quoted) {
        List<MatchResult> names = QUOTED.matcher(quoted).results().toList();
        return names.stream()
                        .map(name -> (name.group(1) + " " + name.group(2)).strip())
                        .collect(Collectors.joining(" and "))
                + (names.size() == 1 ? " is missing" : " are missing");
    }

    private static String ofUnmatched(UnmatchedArgumentException unmatched) {
        CommandLine command = unmatched.getCommandLine();
        // The list is empty where the word stands among the values of an option that takes several.
        Matcher named = OPTION.matcher(unmatched.getMessage());
        boolean isValue = unmatched.getUnmatched().isEmpty();
        if (isValue && !named.find()) {
            return unmatched.getMessage();
        }
        String first = isValue ? named.group(1) : unmatched.getUnmatched().getFirst();
        List<String> known = new ArrayList<>();
        if (isValue || unmatched.isUnknownOption()) {
            command.getCommandSpec().options().forEach(option -> known.addAll(List.of(option.names())));
            return "no such option: " + first + nearest(first.replaceFirst("=.*", ""), known);
        }
        if (command.getParent() == null) {
            return "no such command: " + first
                    + nearest(first, command.getSubcommands().keySet());
        }
        return "unexpected argument: " + first;
    }

    private static String nearest(String word, Collection<String> known) {
        String best = null;
        int fewest = MOST_SLIPS + 1;
        for (String candidate : known) {
            int slips = slips(word, candidate);
            if (slips < fewest) {
                best = candidate;
                fewest = slips;
            }
        }
        return best == null ? "" : "; did you mean " + best + "?";
    }

    /** Letters to change, insert, leave out or swap with their neighbour to make one word of the other. */
    private static int slips(String one, String other) {
        int[][] least = new int[one.length() + 1][other.length() + 1];
        for (int i = 0; i <= one.length(); i++) {
            for (int j = 0; j <= other.length(); j++) {
                if (i == 0 || j == 0) {
                    least[i][j] = i + j;
                    continue;
                }
                int change = one.charAt(i - 1) == other.charAt(j - 1) ? 0 : 1;
                least[i][j] = Math.min(least[i - 1][j - 1] + change, Math.min(least[i - 1][j], least[i][j - 1]) + 1);
                if (i > 1
                        && j > 1
                        && one.charAt(i - 1) == other.charAt(j - 2)
                        && one.charAt(i - 2) == other.charAt(j - 1)) {
                    least[i][j] = Math.min(least[i][j], least[i - 2][j - 2] + 1);
                }
            }
        }
        return least[one.length()][other.length()];
    }
}
