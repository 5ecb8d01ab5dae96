// Runs Apache Kafka's storage tool on many command lines in one process.
// Argument: a file with a command line a line, its arguments separated by tabs.
// Prints for each: "=> exit code", the output with two blanks before each line, and "!  message" if it threw.

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;

public class StorageCases {
    public static void main(String[] args) throws Exception {
        for (String line : Files.readAllLines(Path.of(args[0]))) {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            PrintStream stream = new PrintStream(bytes);
            int code;
            String message = null;
            try {
                code = kafka.tools.StorageTool.execute(line.split("\t", -1), stream);
            } catch (Throwable error) {
                code = 1;
                message = String.valueOf(error.getMessage());
            }
            stream.flush();
            System.out.println("=> " + code);
            for (String output : bytes.toString().split("\n", -1)) System.out.println("  " + output);
            if (message != null) System.out.println("!  " + message.replace("\n", " "));
        }
    }
}
