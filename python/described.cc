// The options of calls as the library describes them: for signatures and help.
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "bindings.h"
#include "longformer/checkpoint.h"
#include "longformer/evaluation.h"
#include "longformer/explanation.h"
#include "longformer/finetuning.h"
#include "longformer/generation.h"
#include "longformer/language_model.h"
#include "longformer/options.h"
#include "longformer/reranking.h"
#include "longformer/retrieved.h"
#include "longformer/search.h"
#include "longformer/tasks.h"

using nanobind::literals::operator""_a;

namespace longformer {
namespace {

/// The annotation of a value.
struct TypeName {
  std::string operator()(const bool*) const { return "bool"; }
  std::string operator()(const std::int64_t*) const { return "int"; }
  std::string operator()(const std::uint64_t*) const { return "int"; }
  std::string operator()(const double*) const { return "float"; }
  std::string operator()(const float*) const { return "float"; }
  std::string operator()(const std::string*) const { return "str"; }
  std::string operator()(const std::vector<std::string>*) const { return "Sequence[str]"; }
  std::string operator()(const std::vector<std::int64_t>*) const { return "int | Sequence[int]"; }
  template <typename Value>
  std::string operator()(const std::optional<Value>*) const {
    return (*this)(static_cast<const Value*>(nullptr));
  }
  std::string operator()(OptionField::Numbers) const { return "Sequence[float]"; }
  std::string operator()(const OptionField::Text&) const { return "str"; }
  std::string operator()(const OptionField::Whole&) const { return "int"; }
  std::string operator()(const OptionField::Flag&) const { return "bool"; }
};

/// The default; None where an empty value stands for "found out".
struct Default {
  nb::object operator()(const std::string* text) const { return of_text(*text); }
  nb::object operator()(const OptionField::Text& text) const { return of_text(text.shown()); }
  nb::object operator()(const OptionField::Whole& number) const { return nb::cast(number.shown()); }
  nb::object operator()(const OptionField::Flag& flag) const { return nb::bool_(flag.shown()); }
  nb::object operator()(OptionField::Numbers numbers) const {
    return nb::cast(std::vector<double>(numbers.begin(), numbers.end()));
  }
  template <typename Value>
  nb::object operator()(const std::vector<Value>* values) const {
    return values->empty() ? nb::none() : nb::cast(*values);
  }
  template <typename Value>
  nb::object operator()(const Value* value) const {
    return nb::cast(*value);
  }

 private:
  static nb::object of_text(const std::string& text) {
    return text.empty() ? nb::object(nb::none()) : nb::object(nb::str(text.c_str(), text.size()));
  }
};

Rows described(const OptionFields& fields) {
  nb::list all;
  for (const OptionField& field : fields) {
    nb::object value = std::visit(Default(), field.value);
    if (field.is_contrary) value = nb::bool_(false);
    all.append(
        nb::make_tuple(field.name, std::visit(TypeName(), field.value), value, help_of(field)));
    if (!field.shorthand.empty()) {
      all.append(nb::make_tuple(field.shorthand, "bool", false,
                                field.name + "=\"" + field.shorthand + "\""));
    }
  }
  return all;
}

template <typename Options>
Rows described_options() {
  Options options;
  return described(fields(options));
}

/// The annotation of an option of GenerationOptions; lists of ids have none of their own.
template <typename Value>
std::string type_of(const std::optional<Value>&) {
  if constexpr (std::is_invocable_v<TypeName, const Value*>) {
    return TypeName()(static_cast<const Value*>(nullptr));
  }
  return "list";
}

/// How texts are searched for.
Rows generation_options() {
  GenerationOptions options;
  nb::list all;
  for_each_generation_option(
      [&all](const char* name, const char* help, const auto& option) {
        all.append(nb::make_tuple(name, type_of(option), nb::none(), help));
      },
      options);
  return all;
}

/// Texts that a model writes: how they are searched for, and how documents are read.
Rows writing_options() {
  GenerationRequest request;
  Rows all = generation_options();
  for (const nb::handle one : described(fields(request))) all.append(one);
  return all;
}

/// How the data of a file of predictions are read.
Rows scoring_options() {
  EvaluateOptions options;
  Rows all = described(fields(options.data));
  const auto add = [&all](const OptionFields& more) {
    for (const nb::handle one : described(more)) all.append(one);
  };
  add(only(fields(options), {"skip_invalid"}));
  add(task_fields(options.data, OptionUse::evaluation));
  return all;
}

using Describe = Rows (*)();
const std::map<std::string, Describe>& calls() {
  static const std::map<std::string, Describe> kCalls = {
      {"finetune", described_options<FinetuneOptions>},
      {"pretrain_mlm", described_options<MaskedLmTraining>},
      {"pretrain_lm", described_options<LanguageModelTraining>},
      {"evaluate_language_model", described_options<LanguageModelEvaluation>},
      {"evaluate", described_options<EvaluateOptions>},
      {"evaluate_retrieval", described_options<RetrievalEvaluation>},
      {"convert", described_options<ConvertOptions>},
      {"classify", described_options<ClassifyOptions>},
      {"explain", described_options<ExplainOptions>},
      {"ner", described_options<TagOptions>},
      {"qa", described_options<AnswerOptions>},
      {"choose", described_options<ChooseOptions>},
      {"coref", described_options<ResolveOptions>},
      {"fill_mask", described_options<FillMaskOptions>},
      {"rerank", described_options<RerankOptions>},
      {"answer_paragraphs", described_options<MultiHopAnswerOptions>},
      {"encode", described_options<EmbedOptions>},
      {"encode_sparse", described_options<KindOptions>},
      {"encode_passages", described_options<Embedder::PassageOptions>},
      {"search_index", described_options<SearchOptions>},
      {"query", described_options<SearchQuery>},
      {"retrieve", described_options<RetrieveOptions>},
      {"write", writing_options},
      {"generate", generation_options},
      {"score", scoring_options},
  };
  return kCalls;
}

Rows options_of(const std::string& call) {
  const auto found = calls().find(call);
  if (found == calls().end()) throw nb::key_error(call.c_str());
  return found->second();
}

}  // namespace

void bind_described(nb::module_& module) { module.def("options_of", &options_of, "call"_a); }

}  // namespace longformer
