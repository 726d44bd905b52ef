// The models of a server, and what each of them can do.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "longformer/checkpoint.h"
#include "longformer/embedding.h"
#include "longformer/generation.h"
#include "longformer/language_model.h"
#include "longformer/reranking.h"
#include "longformer/tasks.h"

namespace longformer::server {

/// Abilities of a model; a route needs one.
enum class Ability {
  embed,
  embed_tokens,
  classify,
  rerank,
  tag,
  answer,
  answer_hops,
  fill,
  choose,
  resolve,
  write,
  complete,
  attend
};

/// In messages: "an embedding model".
std::string_view name_of(Ability ability);

/// A folder with the classes of the library that its head has.
struct ServedModel {
  std::string name, folder, dtype;
  /// Layers that int8 leaves as they are.
  std::vector<std::string> int8_skip;
  FolderInfo info;
  std::optional<Embedder> embedder;
  std::optional<Classifier> classifier;
  /// A classifier of one class is one.
  std::optional<Reranker> reranker;
  std::optional<Tagger> tagger;
  std::optional<QuestionAnswerer> answerer;
  std::optional<MultiHopAnswerer> hop_answerer;
  std::optional<MaskFiller> filler;
  std::optional<Chooser> chooser;
  std::optional<CoreferenceResolver> resolver;
  std::optional<TextGenerator> writer;
  std::optional<LanguageModel> language_model;
  /// The tokenizer of a writer or a language model, which keep theirs to themselves.
  std::optional<Tokenizer> own_tokenizer;

  bool can(Ability ability) const;
  /// Null for a writer and a language model.
  const Model* model() const;
  /// Throws Failure, 424, for a language model that reads bytes.
  const Tokenizer& tokenizer() const;
  /// Longest text in tokens, with the special ones; 0 for a language model, which goes on.
  std::int64_t max_tokens() const;
};

struct LoadedModels {
  std::vector<std::unique_ptr<const ServedModel>> all;

  /// The model of this name; empty: the first one that can. Throws Failure: 404 for a name that
  /// nobody has, 424 where it or nobody can.
  const ServedModel& find(std::string_view name, Ability ability) const;
  const ServedModel* find(std::string_view name) const;
  /// The model of this name; empty: the first of all. Throws Failure, 404.
  const ServedModel& named(std::string_view name) const;
  /// The model of this name if there is one that can, else the first one that can: programs send
  /// the names of other vendors' models. Throws Failure, 424.
  const ServedModel& find_or_first(std::string_view name, Ability ability) const;
};

/// "LAYER" of all models, or "NAME:LAYER" of the model of that name.
struct SkippedLayer {
  explicit SkippedLayer(const std::string& argument);

  std::optional<std::string> model;
  std::string layer;
};

/// MODEL of the command line: a folder, org/name in the Hub's cache, or NAME= before either. Of
/// LoadOptions::int8_skip it takes its own layers (SkippedLayer). Throws
/// Error for what is no model that a server can use.
std::unique_ptr<const ServedModel> load_served(const std::string& argument, LoadOptions options);

/// NAME=FOLDER, BASE:NAME=FOLDER or a folder alone, whose last part is the name: a LoRA adapter of
/// a model that is served, which is then served as BASE:NAME too. BASE may be left out where one
/// model is served. The options are those of the base. Throws Error.
std::unique_ptr<const ServedModel> load_adapter(const std::string& argument,
                                                const LoadedModels& models, LoadOptions options);

}  // namespace longformer::server
