#include "served_model.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "failure.h"
#include "longformer/error.h"

namespace longformer::server {

std::string_view name_of(Ability ability) {
  switch (ability) {
    case Ability::embed:
      return "an embedding model";
    case Ability::embed_tokens:
      return "an embedding model with a vector for each token";
    case Ability::classify:
      return "a model that classifies";
    case Ability::rerank:
      return "a model that reranks";
    case Ability::tag:
      return "a model that labels tokens";
    case Ability::answer:
      return "a model that answers questions";
    case Ability::answer_hops:
      return "a model that answers questions over several paragraphs";
    case Ability::fill:
      return "a model that fills masks";
    case Ability::choose:
      return "a model that chooses among answers";
    case Ability::resolve:
      return "a coreference model";
    case Ability::write:
      return "a model that writes summaries";
    case Ability::complete:
      return "a language model";
    case Ability::attend:
      return "a model whose tokens attend to tokens";
  }
  return "";
}

namespace {

/// Calls `use` with the class of the head that has a Model; false for a writer.
template <typename Use>
bool with_head(const ServedModel& served, Use&& use) {
  const auto try_one = [&use](const auto& head) {
    if (head) use(*head);
    return head.has_value();
  };
  return try_one(served.embedder) || try_one(served.classifier) || try_one(served.tagger) ||
         try_one(served.answerer) || try_one(served.hop_answerer) || try_one(served.chooser) ||
         try_one(served.resolver);
}

}  // namespace

const Model* ServedModel::model() const {
  const Model* found = nullptr;
  with_head(*this, [&](const auto& head) { found = &head.model(); });
  return found;
}

const Tokenizer& ServedModel::tokenizer() const {
  const Tokenizer* found = nullptr;
  if (!with_head(*this, [&](const auto& head) { found = &head.tokenizer(); })) {
    if (!own_tokenizer) refuse_head(fmt::format("Model `{}` reads bytes, not tokens", name));
    found = &*own_tokenizer;
  }
  return *found;
}

std::int64_t ServedModel::max_tokens() const {
  if (embedder) return embedder->max_length();
  if (language_model) return 0;
  return writer ? writer->info().max_source_tokens : model()->info().max_tokens;
}

bool ServedModel::can(Ability ability) const {
  switch (ability) {
    case Ability::embed:
      return embedder.has_value();
    case Ability::embed_tokens:
      return embedder && embedder->kinds().multi;
    case Ability::classify:
      return classifier.has_value();
    case Ability::rerank:
      return reranker.has_value();
    case Ability::tag:
      return tagger.has_value();
    case Ability::answer:
      return answerer.has_value();
    case Ability::answer_hops:
      return hop_answerer.has_value();
    case Ability::fill:
      return filler.has_value();
    case Ability::choose:
      return chooser.has_value();
    case Ability::resolve:
      return resolver.has_value();
    case Ability::write:
      return writer.has_value();
    case Ability::complete:
      return language_model.has_value();
    case Ability::attend:
      return model() != nullptr && info.attention.empty();
  }
  return false;
}

const ServedModel* LoadedModels::find(std::string_view name) const {
  for (const auto& model : all) {
    if (model->name == name) return model.get();
  }
  return nullptr;
}

const ServedModel& LoadedModels::named(std::string_view name) const {
  const ServedModel* model = name.empty() ? all.front().get() : find(name);
  if (model == nullptr) {
    throw Failure(404, "Validation", fmt::format("no model `{}` is served", name));
  }
  return *model;
}

const ServedModel& LoadedModels::find_or_first(std::string_view name, Ability ability) const {
  const ServedModel* model = find(name);
  return model != nullptr && model->can(ability) ? *model : find("", ability);
}

const ServedModel& LoadedModels::find(std::string_view name, Ability ability) const {
  if (!name.empty()) {
    const ServedModel& model = named(name);
    if (!model.can(ability)) {
      refuse_head(fmt::format("Model `{}` is not {}", name, name_of(ability)));
    }
    return model;
  }
  for (const auto& model : all) {
    if (model->can(ability)) return *model;
  }
  refuse_head(all.size() == 1 ? fmt::format("Model is not {}", name_of(ability))
                              : fmt::format("No model that is served is {}", name_of(ability)));
}

namespace {

/// "NAME=place", or a place whose last part is the name. A folder may have a "=" in its own name.
std::pair<std::string, std::string> name_and_place(const std::string& argument) {
  if (std::filesystem::is_directory(argument)) {
    return {std::filesystem::weakly_canonical(argument).filename().string(), argument};
  }
  const auto equals = argument.find('=');
  if (equals == std::string::npos) return {argument, argument};
  if (equals == 0) {
    throw Error(fmt::format("{}: expected a name before '=', found none", argument));
  }
  return {argument.substr(0, equals), argument.substr(equals + 1)};
}

void load_head(ServedModel& served, const LoadOptions& options) {
  const std::string& folder = served.folder;
  const std::string& head = served.info.head;
  // A folder of sentence-transformers is one of vectors, whatever head it was made of.
  if (!served.info.pooling.empty() || head.empty() || head == "masked-lm") {
    served.embedder.emplace(Embedder::load(folder, options));
    if (served.embedder->model().info().has_masked_lm_head &&
        served.embedder->tokenizer().special_tokens().mask) {
      served.filler.emplace(served.embedder->model(), served.embedder->tokenizer());
    }
  } else if (head == "sequence-classification") {
    served.classifier.emplace(Classifier::load(folder, options));
    if (served.classifier->model().info().labels.size() == 1) {
      served.reranker.emplace(Reranker::of(*served.classifier, folder, options.adapter));
    }
  } else if (head == "token-classification") {
    served.tagger.emplace(Tagger::load(folder, options));
  } else if (head == "question-answering") {
    served.answerer.emplace(QuestionAnswerer::load(folder, options));
  } else if (head == "multi-hop-question-answering") {
    served.hop_answerer.emplace(MultiHopAnswerer::load(folder, options));
  } else if (head == "multiple-choice" || head == "candidate-scoring") {
    served.chooser.emplace(Chooser::load(folder, options));
  } else if (head == "coreference") {
    served.resolver.emplace(CoreferenceResolver::load(folder, options));
  } else {
    throw Error(fmt::format("{}: expected a model that a server can use, found one for {}",
                            served.name, head));
  }
}

void load_parts(ServedModel& served, const LoadOptions& options) {
  if (TextGenerator::is_one(served.folder)) {
    served.writer.emplace(TextGenerator::load(served.folder, options));
    served.own_tokenizer.emplace(Tokenizer::load(tokenizer_folder(served.folder, options.adapter)));
  } else {
    load_head(served, options);
  }
}

void load_language_model(ServedModel& served, const LoadOptions& options) {
  served.language_model.emplace(LanguageModel::load(served.folder, options));
  const LanguageModelInfo info = served.language_model->info();
  served.info.head = "language-modeling";
  served.info.layers = info.layers;
  served.info.parameters = info.parameters;
  served.info.windows = info.windows;
  if (info.reads_tokens) served.own_tokenizer.emplace(Tokenizer::load(served.folder));
}

/// Those for all models, and those of the model of this name.
std::vector<std::string> layers_of(const std::vector<std::string>& all, const std::string& model) {
  std::vector<std::string> layers;
  for (const std::string& one : all) {
    const SkippedLayer skipped(one);
    if (!skipped.model || *skipped.model == model) layers.push_back(skipped.layer);
  }
  return layers;
}

}  // namespace

SkippedLayer::SkippedLayer(const std::string& argument) : layer(argument) {
  const auto colon = argument.rfind(':');
  if (colon == argument.npos) return;
  model = argument.substr(0, colon);
  layer = argument.substr(colon + 1);
}

std::unique_ptr<const ServedModel> load_served(const std::string& argument, LoadOptions options) {
  auto served = std::make_unique<ServedModel>();
  const auto [name, place] = name_and_place(argument);
  served->name = name;
  served->folder = find_model(place);
  served->dtype = options.dtype;
  served->int8_skip = options.int8_skip = layers_of(options.int8_skip, name);
  if (LanguageModel::is_one(served->folder)) {
    load_language_model(*served, options);
    return served;
  }
  served->info = inspect(served->folder);
  load_parts(*served, options);
  return served;
}

std::unique_ptr<const ServedModel> load_adapter(const std::string& argument,
                                                const LoadedModels& models, LoadOptions options) {
  const auto [given, folder] = name_and_place(argument);
  // A path may have colons.
  const auto colon = folder == argument ? argument.npos : given.rfind(':');
  const bool names_base = colon != std::string::npos;
  const ServedModel* base = names_base               ? models.find(given.substr(0, colon))
                            : models.all.size() == 1 ? models.all.front().get()
                                                     : nullptr;
  if (base == nullptr) {
    throw Error(names_base ? fmt::format("adapter {}: no model `{}` is served", argument,
                                         given.substr(0, colon))
                           : fmt::format("adapter {}: several models are served: give it as "
                                         "BASE:NAME=FOLDER",
                                         argument));
  }
  if (base->language_model) {
    throw Error(fmt::format("adapter {}: expected a model that is no language model", argument));
  }
  auto served = std::make_unique<ServedModel>();
  served->name = base->name + ":" + (names_base ? given.substr(colon + 1) : given);
  served->folder = base->folder;
  served->dtype = options.dtype;
  served->info = inspect(base->folder, folder);
  // A head of the adapter stands above the pooling of the model.
  if (served->info.head != base->info.head) served->info.pooling.clear();
  served->int8_skip = options.int8_skip = base->int8_skip;
  options.adapter = folder;
  load_parts(*served, options);
  return served;
}

}  // namespace longformer::server
