// Documents whose mentions are in clusters (docs/spec/tasks.md#t4): CoNLL-2012 and JSON lines.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "engine/frame/data_file.h"
#include "longformer/document.h"
#include "longformer/text.h"
#include "tasks/engine_names.h"

namespace longformer::tasks {

/// A document as words.
struct CoreferenceWords {
  std::vector<std::string> words;
  /// Numbers of the words with which sentences begin, in order; none where sentences are not known.
  std::vector<Index> sentences;
  /// Who says each word; empty where nobody is named.
  std::vector<std::string> speakers = {};
};

struct CoreferenceExample {
  /// The id is the document's key: "(NAME); part 000" of a CoNLL file; the number of the record for
  /// an object without one.
  Origin origin;
  CoreferenceWords words;
  /// Mentions and clusters in their order; no span is in two.
  std::vector<WordCluster> clusters;
  /// Spans that were in a second cluster, too, which was ignored.
  std::int64_t repeated_spans = 0;
};

struct CoreferenceData {
  std::string path;
  std::vector<CoreferenceExample> examples;
  DataReport report;
  /// Sums over the examples.
  std::int64_t repeated_spans = 0;
  std::int64_t mentions = 0, clusters = 0, singletons = 0;
};

/// Members that an object must have.
struct CoreferenceMembers {
  bool words = true, clusters = true;
};

/// Reads CoNLL-2012, with columns parted by tabs or blanks, words in the fourth column, speakers in
/// the tenth of at least eleven and clusters in the last one ("(12", "12)", "(12)", joined by "|"
/// or by nothing; "-", "_" and an empty column are none); or objects {"doc_key" | "id", "sentences"
/// | "tokens" | "text", "clusters", "speakers"}, whose clusters are lists of [first word, last
/// word], with a text of [first character, last character + 1]. Throws Error that names file, line
/// and cluster.
CoreferenceData read_coreference(const std::string& path, const DataOptions& options,
                                 const CoreferenceMembers& members = {});

/// Fills in the sums over the examples.
void count_examples(CoreferenceData& data);

/// The key of a document as CoNLL-2012 has it: "(NAME); part 000".
std::string conll_key(const std::string& key);

/// A text as words, as BERT sees them, with their characters and its sentences.
struct TextWords {
  CoreferenceWords words;
  std::vector<CharacterSpan> characters;
};
TextWords words_of_text(std::string_view text);

/// Clusters and mentions in their order. A span that was seen before is left out; returns how many.
std::int64_t put_in_order(std::vector<WordCluster>& clusters);

/// A document with these clusters in the form of CoNLL-2012, which its scorer reads: columns parted
/// by tabs, of which the last one has the clusters.
std::string conll_text(const CoreferenceExample& document,
                       const std::vector<WordCluster>& clusters);

}  // namespace longformer::tasks
