import java.io.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.lang.reflect.*;
import org.apache.kafka.common.config.*;
import com.fasterxml.jackson.databind.*;
import com.fasterxml.jackson.databind.node.*;

/** Answers a JSON list of questions about configuration (first argument: file) with a JSON list on stdout. */
public class ConfigProbe {
    static final ObjectMapper mapper = new ObjectMapper();
    static final Map<String, ConfigDef> defs = new HashMap<>();

    static Object staticField(String className, String... names) throws Exception {
        Class<?> c = Class.forName(className);
        for (String name : names) {
            try {
                Field f = c.getDeclaredField(name);
                f.setAccessible(true);
                return f.get(null);
            } catch (NoSuchFieldException e) {
                try { return c.getMethod(name).invoke(null); } catch (NoSuchMethodException again) { }
            }
        }
        throw new RuntimeException(className + " has none of " + Arrays.toString(names));
    }

    static ConfigDef def(String scope) throws Exception {
        ConfigDef known = defs.get(scope);
        if (known != null) return known;
        ConfigDef d;
        switch (scope) {
            case "producer": d = org.apache.kafka.clients.producer.ProducerConfig.configDef(); break;
            case "consumer": d = org.apache.kafka.clients.consumer.ConsumerConfig.configDef(); break;
            case "admin": d = org.apache.kafka.clients.admin.AdminClientConfig.configDef(); break;
            case "group": d = (ConfigDef) staticField("org.apache.kafka.coordinator.group.GroupConfig", "configDef"); break;
            case "topic": d = org.apache.kafka.storage.internals.log.LogConfig.configDefCopy(); break;
            default: d = (ConfigDef) staticField("org.apache.kafka.server.config.AbstractKafkaConfig", "CONFIG_DEF");
        }
        defs.put(scope, d);
        return d;
    }

    static Properties properties(JsonNode map) {
        Properties p = new Properties();
        map.fields().forEachRemaining(e -> p.setProperty(e.getKey(), e.getValue().asText()));
        return p;
    }

    static void answer(JsonNode ask, ObjectNode out) throws Exception {
        switch (ask.get("ask").asText()) {
            case "value": {
                ConfigDef.ConfigKey key = def(ask.get("scope").asText()).configKeys().get(ask.get("name").asText());
                Object parsed = ConfigDef.parseType(key.name, ask.get("value").asText(), key.type);
                if (key.validator != null) key.validator.ensureValid(key.name, parsed);
                out.put("ok", ConfigDef.convertToString(parsed, key.type));
                break;
            }
            case "options": {
                ObjectNode rows = out.putObject("ok");
                for (ConfigDef.ConfigKey key : def(ask.get("scope").asText()).configKeys().values()) {
                    boolean required = key.defaultValue == ConfigDef.NO_DEFAULT_VALUE;
                    ArrayNode row = rows.putArray(key.name);
                    row.add(key.type.toString());
                    row.add(required || key.defaultValue == null ? null : ConfigDef.convertToString(key.defaultValue, key.type));
                    row.add(key.validator == null ? null : key.validator.toString());
                    row.add(key.importance.toString());
                    row.add(required);
                    row.add(key.internalConfig);
                }
                break;
            }
            case "topic": {
                org.apache.kafka.storage.internals.log.LogConfig.validate(properties(ask.get("given")));
                out.put("ok", "");
                break;
            }
            case "broker": {
                Class<?> c = Class.forName("kafka.server.KafkaConfig");
                Object config = c.getMethod("fromProps", Properties.class, boolean.class)
                    .invoke(null, properties(ask.get("given")), false);
                ObjectNode ok = out.putObject("ok");
                for (JsonNode method : ask.get("show"))
                    ok.put(method.asText(), String.valueOf(c.getMethod(method.asText()).invoke(config)));
                break;
            }
            case "producer":
                new org.apache.kafka.clients.producer.ProducerConfig(properties(ask.get("given")));
                out.put("ok", "");
                break;
            case "consumer":
                new org.apache.kafka.clients.consumer.ConsumerConfig(properties(ask.get("given")));
                out.put("ok", "");
                break;
            case "load": {
                Properties p = new Properties();
                p.load(new ByteArrayInputStream(Base64.getDecoder().decode(ask.get("bytes").asText())));
                ObjectNode ok = out.putObject("ok");
                for (String name : p.stringPropertyNames()) ok.put(name, p.getProperty(name));
                break;
            }
            case "store": {
                Properties p = new Properties();
                p.setProperty(ask.get("key").asText(), ask.get("value").asText());
                ByteArrayOutputStream bytes = new ByteArrayOutputStream();
                p.store(bytes, ask.hasNonNull("comment") ? ask.get("comment").asText() : null);
                out.put("ok", Base64.getEncoder().encodeToString(bytes.toByteArray()));
                break;
            }
            case "double":
                out.put("ok", Double.toString(ask.get("value").asDouble()));
                break;
            default:
                throw new RuntimeException("unknown question " + ask);
        }
    }

    public static void main(String[] args) throws Exception {
        ArrayNode answers = mapper.createArrayNode();
        for (JsonNode ask : mapper.readTree(new File(args[0]))) {
            ObjectNode out = answers.addObject();
            try {
                answer(ask, out);
            } catch (InvocationTargetException e) {
                out.put("error", String.valueOf(e.getCause().getMessage()));
            } catch (Exception e) {
                out.put("error", String.valueOf(e.getMessage()));
            }
        }
        Files.write(Path.of(args[1]), mapper.writeValueAsBytes(answers));
    }
}
