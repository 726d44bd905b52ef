// The settings that an index file keeps: which model and options made its passages.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "index/passage_store.h"
#include "longformer/embedding.h"
#include "longformer/search.h"
#include "longformer/text.h"

namespace longformer::tasks {

/// The options that make passage vectors and questions comparable.
EmbedOptions vectors_for(Similarity similarity, const std::optional<std::string>& prompt,
                         const char* prompt_name);

/// Those of a new index with the vectors of a model.
index::Settings settings_of(const Embedder& embedder, const SearchOptions& given);
/// Those of a new index of words alone. Throws Error for options of vectors.
index::Settings settings_of(const Tokenizer& tokenizer, const SearchOptions& given);

/// A setting that nothing reads could change what the vectors of an index mean.
void refuse_unknown(const index::Settings& found, const std::string& file);

/// Throws Error for an index whose vectors are not those of this model.
void check_model(const index::Settings& found, const Embedder& embedder, const std::string& file);

/// The passages of a text without vectors, as an index of words has them.
PassageVectors passages_of_words(const Tokenizer& tokenizer, std::string_view text,
                                 const Embedder::PassageOptions& options);

/// Reads the settings of an index. Throws the Error of a damaged index for those that are missing
/// or malformed.
class SettingsReader {
 public:
  /// Both stay where they are while it is used.
  SettingsReader(const index::Settings& settings, const std::string& file)
      : settings_(settings), file_(file) {}

  bool has(const std::string& name) const { return settings_.contains(name); }
  const std::string& text(const std::string& name) const;
  /// Numbers of each vector; 0 where there are none.
  std::int64_t vector_size() const;
  /// Whether documents are named by their paths from the folder of the index.
  bool names_are_from_its_folder() const;
  SearchOptions options() const;

 private:
  VectorKinds kinds() const;
  std::int64_t number(const std::string& name, std::int64_t least, std::int64_t most) const;
  template <typename Value>
  Value named(const std::string& name, Value (*value_of)(const std::string&)) const;
  [[noreturn]] void fail_damaged(const std::string& name) const;

  const index::Settings& settings_;
  const std::string& file_;
};

}  // namespace longformer::tasks
