package dev.kcp.train;

import dev.kcp.comm.Communicator;
import dev.kcp.comm.LocalRanks;
import dev.kcp.conv.ConvEngine;
import dev.kcp.core.Layout;
import dev.kcp.cuda.CudaEvent;
import dev.kcp.nccl.NcclCommunicator;
import dev.kcp.nccl.NcclLibrary;
import dev.kcp.train.cuda.CudaTrainEngine;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Where the time of a step goes on GPUs: a program of its own, for people. Prints milliseconds of a step by program, each
 * between two events on the stream with steps called and not replayed, and of replayed steps what the host does.
 *
 * <pre>java ... dev.kcp.train.StepProfile TEXT LAYERS CHANNELS TOKENS ALIGN STEPS WORLD</pre>
 */
public final class StepProfile {
    private static final Duration DEADLINE = Duration.ofMinutes(1);

    /** One call's events. */
    private record Span(String program, CudaEvent begin, CudaEvent end) {}

    private final CudaTrainEngine gpu;
    private final List<Span> spans = new ArrayList<>();
    private boolean recording;

    private StepProfile(CudaTrainEngine gpu) {
        this.gpu = gpu;
    }

    public static void main(String[] arguments) {
        int tokens = Integer.parseInt(arguments[3]);
        int align = Integer.parseInt(arguments[4]);
        int steps = Integer.parseInt(arguments[5]);
        int world = Integer.parseInt(arguments[6]);
        ModelShape shape = new ModelShape(Integer.parseInt(arguments[1]), Integer.parseInt(arguments[2]));
        TrainConfig config = new TrainConfig(
                shape, tokens, steps, 1, 0.002, 0.1, 1, Layout.CONTIGUOUS, align, true, align % 64 == 0);
        TextCorpus corpus = TextCorpus.read(List.of(Path.of(arguments[0])), false);
        LocalRanks.run(world, DEADLINE, control -> {
            Path nccl = world == 1 ? null : NcclLibrary.require(System.getenv());
            try (CudaTrainEngine gpu = BothEngines.openGpu(control.rank());
                    NcclCommunicator group = NcclCommunicator.create(control, gpu.stream(), nccl, DEADLINE)) {
                if (world == 1) {
                    new StepProfile(gpu).called(config, group, new Packer(corpus, tokens, 1));
                }
                gpu.join(group);
                replayed(config, group, gpu, corpus);
            }
            return null;
        });
    }

    private void called(TrainConfig config, Communicator alone, Packer packer) {
        ConvEngine conv = timed(ConvEngine.class, gpu.conv(), "conv.");
        TrainEngine engine = (TrainEngine) Proxy.newProxyInstance(
                StepProfile.class.getClassLoader(),
                new Class<?>[] {TrainEngine.class},
                (proxy, method, given) -> switch (method.getName()) {
                    case "conv" -> conv;
                    case "step" -> {
                        ((Runnable) given[1]).run();
                        yield null;
                    }
                    case "read", "write", "allocate", "activationType", "streamType" -> call(gpu, method, given);
                    default -> timed(method.getName(), gpu, method, given);
                });
        try (TrainStep train = new TrainStep(config, alone, engine)) {
            for (int step = 1; step <= config.steps(); step++) {
                recording = step > config.steps() / 2;
                train.run(step, packer.next(), 0.001);
            }
        }
        Map<String, float[]> totals = new TreeMap<>();
        float sum = 0;
        for (Span span : spans) {
            float millis = span.end().millisSince(span.begin());
            float[] total = totals.computeIfAbsent(span.program(), name -> new float[2]);
            total[0] += millis;
            total[1]++;
            sum += millis;
            span.begin().close();
            span.end().close();
        }
        int counted = config.steps() - config.steps() / 2;
        totals.forEach((name, total) -> System.out.printf(
                "%-28s %8.3f ms  %5.1f calls of a step%n", name, total[0] / counted, total[1] / counted));
        System.out.printf("%-28s %8.3f ms%n", "all programs", sum / counted);
    }

    private <T> T timed(Class<T> type, T target, String prefix) {
        return type.cast(Proxy.newProxyInstance(
                StepProfile.class.getClassLoader(),
                new Class<?>[] {type},
                (proxy, method, given) -> switch (method.getName()) {
                    case "forward", "head", "main", "owed", "round", "backward" ->
                        timed(
                                prefix + method.getName() + (method.getName().equals("forward") ? "." + given[3] : ""),
                                target,
                                method,
                                given);
                    default -> call(target, method, given);
                }));
    }

    private Object timed(String program, Object target, Method method, Object[] given) throws Throwable {
        if (!recording) {
            return call(target, method, given);
        }
        CudaEvent begin = new CudaEvent(gpu.stream().device());
        CudaEvent end = new CudaEvent(gpu.stream().device());
        begin.record(gpu.stream());
        Object result = call(target, method, given);
        end.record(gpu.stream());
        spans.add(new Span(program, begin, end));
        return result;
    }

    private static Object call(Object target, Method method, Object[] given) throws Throwable {
        try {
            return method.invoke(target, given);
        } catch (InvocationTargetException e) {
            throw e.getCause();
        }
    }

    /** Wall time of replayed steps, as in training: what the device takes, and what the host does meanwhile. */
    private static void replayed(TrainConfig config, Communicator group, CudaTrainEngine gpu, TextCorpus corpus) {
        long[] nanos = new long[3];
        float[] device = new float[1];
        CudaEvent begin = new CudaEvent(gpu.stream().device());
        CudaEvent end = new CudaEvent(gpu.stream().device());
        TrainEngine engine = (TrainEngine) Proxy.newProxyInstance(
                StepProfile.class.getClassLoader(), new Class<?>[] {TrainEngine.class}, (proxy, method, given) -> {
                    long since = System.nanoTime();
                    switch (method.getName()) {
                        case "step" -> {
                            begin.record(gpu.stream());
                            gpu.step(given[0], (Runnable) given[1]);
                            end.record(gpu.stream());
                            nanos[1] += System.nanoTime() - since;
                            return null;
                        }
                        case "read" -> {
                            call(gpu, method, given);
                            nanos[2] += System.nanoTime() - since;
                            device[0] += end.millisSince(begin);
                            return null;
                        }
                        default -> {
                            return call(gpu, method, given);
                        }
                    }
                });
        try (TrainStep train = new TrainStep(config, group, engine)) {
            StepSequence steps = new StepSequence(config, corpus, train, RunPosition.START);
            long since = System.nanoTime();
            while (steps.hasNext()) {
                if (steps.position().step() == config.steps() / 2) {
                    Arrays.fill(nanos, 0);
                    device[0] = 0;
                    since = System.nanoTime();
                }
                steps.next();
            }
            nanos[0] = System.nanoTime() - since;
        }
        double counted = config.steps() - config.steps() / 2;
        if (group.rank() == 0) {
            System.out.printf(
                    "replayed: step %.3f ms, on the device %.3f ms; host: giving the step %.3f ms, then the next batch "
                            + "%.3f ms, then waiting %.3f ms%n",
                    nanos[0] / counted / 1e6,
                    device[0] / counted,
                    nanos[1] / counted / 1e6,
                    (nanos[0] - nanos[1] - nanos[2]) / counted / 1e6,
                    nanos[2] / counted / 1e6);
        }
    }
}
