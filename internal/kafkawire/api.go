package kafkawire

// api is one kind of request in the one version that is spoken here. docs/kafka-protocol.md says why each.
type api struct {
	name    string
	key     int16
	version int16
	// since is the first Kafka that knows the version.
	since string
}

// All of these are flexible versions (KIP-482). KIP-896 keeps them for every Kafka 4.
var (
	apiVersions          = api{"ApiVersions", 18, 3, "2.4"}
	apiMetadata          = api{"Metadata", 3, 12, "3.1"}
	apiFetch             = api{"Fetch", 1, 13, "3.1"}
	apiListOffsets       = api{"ListOffsets", 2, 6, "2.8"}
	apiFindCoord         = api{"FindCoordinator", 10, 3, "2.4"}
	apiOffsetCommit      = api{"OffsetCommit", 8, 8, "2.4"}
	apiOffsetFetch       = api{"OffsetFetch", 9, 7, "2.5"}
	apiCreateTopics      = api{"CreateTopics", 19, 7, "2.8"}
	apiDescribe          = api{"DescribeConfigs", 32, 4, "2.8"}
	apiDescribeProducers = api{"DescribeProducers", 61, 0, "2.8"}
	apiDescribeTxns      = api{"DescribeTransactions", 65, 0, "3.0"}
	apiInitProducer      = api{"InitProducerId", 22, 4, "2.7"}
	apiAddPartitions     = api{"AddPartitionsToTxn", 24, 3, "2.8"}
	apiProduceV1         = api{"Produce", 0, 9, "2.8"}
	apiProduceV2         = api{"Produce", 0, 12, "4.0"}
	apiEndTxnV1          = api{"EndTxn", 26, 3, "2.8"}
	apiEndTxnV2          = api{"EndTxn", 26, 5, "4.0"}
)
