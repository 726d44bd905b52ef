#include "served_model.h"

#include <fmt/format.h>

#include <filesystem>

#include "failure.h"
#include "longformer/error.h"

namespace longformer::server {

std::string_view name_of(Ability ability) {
  switch (ability) {
    case Ability::embed:
      return "an embedding model";
    case Ability::classify:
      return "a model that classifies";
    case Ability::rerank:
      return "a model that reranks";
    case Ability::tag:
      return "a model that labels tokens";
    case Ability::answer:
      return "a model that answers questions";
    case Ability::fill:
      return "a model that fills masks";
    case Ability::choose:
      return "a model that chooses among answers";
    case Ability::resolve:
      return "a coreference model";
    case Ability::write:
      return "a model that writes summaries";
    case Ability::attend:
      return "a model whose tokens attend to tokens";
  }
  return "";
}

const Model* ServedModel::model() const {
  if (embedder) return &embedder->model();
  if (classifier) return &classifier->model();
  if (tagger) return &tagger->model();
  if (answerer) return &answerer->model();
  if (chooser) return &chooser->model();
  if (resolver) return &resolver->model();
  return nullptr;
}

const Tokenizer& ServedModel::tokenizer() const {
  if (embedder) return embedder->tokenizer();
  if (classifier) return classifier->tokenizer();
  if (tagger) return tagger->tokenizer();
  if (answerer) return answerer->tokenizer();
  if (chooser) return chooser->tokenizer();
  if (resolver) return resolver->tokenizer();
  return *own_tokenizer;
}

std::int64_t ServedModel::max_tokens() const {
  if (embedder) return embedder->max_length();
  return writer ? writer->info().max_source_tokens : model()->info().max_tokens;
}

bool ServedModel::can(Ability ability) const {
  switch (ability) {
    case Ability::embed:
      return embedder.has_value();
    case Ability::classify:
      return classifier.has_value();
    case Ability::rerank:
      return classifier && classifier->model().info().labels.size() == 1;
    case Ability::tag:
      return tagger.has_value();
    case Ability::answer:
      return answerer.has_value();
    case Ability::fill:
      return filler.has_value();
    case Ability::choose:
      return chooser.has_value();
    case Ability::resolve:
      return resolver.has_value();
    case Ability::write:
      return writer.has_value();
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

const ServedModel& LoadedModels::find(std::string_view name, Ability ability) const {
  if (!name.empty()) {
    const ServedModel* named = find(name);
    if (named == nullptr) {
      throw Failure(404, "Validation", fmt::format("no model `{}` is served", name));
    }
    if (!named->can(ability)) {
      refuse_head(fmt::format("Model `{}` is not {}", name, name_of(ability)));
    }
    return *named;
  }
  for (const auto& model : all) {
    if (model->can(ability)) return *model;
  }
  refuse_head(all.size() == 1 ? fmt::format("Model is not {}", name_of(ability))
                              : fmt::format("No model that is served is {}", name_of(ability)));
}

namespace {

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
  } else if (head == "token-classification") {
    served.tagger.emplace(Tagger::load(folder, options));
  } else if (head == "question-answering") {
    served.answerer.emplace(QuestionAnswerer::load(folder, options));
  } else if (head == "multiple-choice" || head == "candidate-scoring") {
    served.chooser.emplace(Chooser::load(folder, options));
  } else if (head == "coreference") {
    served.resolver.emplace(CoreferenceResolver::load(folder, options));
  } else {
    throw Error(fmt::format("{}: expected a model that a server can use, found one for {}",
                            served.name, head));
  }
}

}  // namespace

std::unique_ptr<const ServedModel> load_served(const std::string& argument,
                                               const LoadOptions& options) {
  auto served = std::make_unique<ServedModel>();
  const auto equals = argument.find('=');
  const std::string place = equals == std::string::npos ? argument : argument.substr(equals + 1);
  served->folder = find_model(place);
  served->dtype = options.dtype;
  served->name = equals == std::string::npos
                     ? (std::filesystem::is_directory(place)
                            ? std::filesystem::weakly_canonical(place).filename().string()
                            : place)
                     : argument.substr(0, equals);
  served->info = inspect(served->folder);
  if (TextGenerator::is_one(served->folder)) {
    served->writer.emplace(TextGenerator::load(served->folder, options));
    served->own_tokenizer.emplace(Tokenizer::load(served->folder));
  } else {
    load_head(*served, options);
  }
  return served;
}

}  // namespace longformer::server
