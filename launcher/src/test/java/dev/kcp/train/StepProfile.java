package dev.kcp.train;

import dev.kcp.comm.Communicator;
import dev.kcp.comm.LocalCommunicator;
import dev.kcp.conv.ConvEngine;
import dev.kcp.conv.cuda.CudaEvent;
import dev.kcp.core.Layout;
import dev.kcp.core.Partition;
import dev.kcp.train.cuda.CudaTrainEngine;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Where the time of a step on one GPU goes: a program of its own, for people. Prints milliseconds of a step by program, each
 * between two events on the stream with steps called and not replayed, and what the host does before each step.
 *
 * <pre>java ... dev.kcp.train.StepProfile TEXT LAYERS CHANNELS TOKENS ALIGN STEPS</pre>
 */
public final class StepProfile {
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
        ModelShape shape = new ModelShape(Integer.parseInt(arguments[1]), Integer.parseInt(arguments[2]));
        TrainConfig config = new TrainConfig(
                shape, tokens, steps, 1, 0.002, 0.1, 1, Layout.CONTIGUOUS, align, true, align % 64 == 0);
        try (CudaTrainEngine gpu = BothEngines.openGpu(0);
                Communicator alone =
                        LocalCommunicator.group(1, Duration.ofMinutes(1)).getFirst()) {
            Packer packer = new Packer(TextCorpus.read(List.of(Path.of(arguments[0])), false), tokens, 1);
            new StepProfile(gpu).called(config, alone, packer);
            replayed(config, alone, gpu, packer);
        }
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

    /** Wall time of replayed steps, and what of it the host spends before the device starts. */
    private static void replayed(TrainConfig config, Communicator alone, CudaTrainEngine gpu, Packer packer) {
        try (TrainStep train = new TrainStep(config, alone, gpu)) {
            long all = 0;
            long packing = 0;
            for (int step = 1; step <= config.steps(); step++) {
                long begin = System.nanoTime();
                PackedBatch batch = packer.next();
                long packed = System.nanoTime();
                train.run(step, batch, 0.001);
                if (step > config.steps() / 2) {
                    packing += packed - begin;
                    all += System.nanoTime() - begin;
                }
            }
            double counted = 1e6 * (config.steps() - config.steps() / 2);
            System.out.printf("replayed step %.3f ms, of it packing %.3f ms%n", all / counted, packing / counted);
            PackedBatch batch = packer.next();
            for (String what : List.of("partition", "tiles")) {
                long begin = System.nanoTime();
                for (int i = 0; i < 200; i++) {
                    Partition partition =
                            Partition.of(config.layout(), batch.cuSeqlens(), alone.size(), config.align());
                    if (what.equals("tiles") && config.sameBits()) {
                        TilePlan.exact(partition, config.align());
                    }
                }
                System.out.printf("host: %s %.3f ms%n", what, (System.nanoTime() - begin) / 200e6);
            }
        }
    }
}
