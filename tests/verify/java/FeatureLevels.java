// Prints Apache Kafka's table of feature levels.

import org.apache.kafka.server.common.Feature;
import org.apache.kafka.server.common.FeatureVersion;
import org.apache.kafka.server.common.MetadataVersion;

public class FeatureLevels {
    public static void main(String[] args) {
        for (MetadataVersion version : MetadataVersion.VERSIONS)
            System.out.println("metadata.version " + version.featureLevel() + " " + version + " " + version.isProduction());
        for (Feature feature : Feature.PRODUCTION_FEATURES) {
            System.out.println("feature " + feature.featureName() + " " + feature.latestProduction());
            for (FeatureVersion level : feature.featureVersions())
                System.out.println("level " + level.featureLevel() + " " + level.bootstrapMetadataVersion().featureLevel()
                    + " " + level.dependencies());
            StringBuilder defaults = new StringBuilder("defaults");
            for (MetadataVersion version : MetadataVersion.VERSIONS)
                defaults.append(" ").append(feature.defaultLevel(version));
            System.out.println(defaults);
        }
    }
}
