// The options of calls as the library describes them: for signatures and help.
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "bindings.h"
#include "longformer/checkpoint.h"
#include "longformer/evaluation.h"
#include "longformer/finetuning.h"
#include "longformer/language_model.h"
#include "longformer/options.h"

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
};

/// The default; None where an empty value stands for "found out".
struct Default {
  nb::object operator()(const std::string* text) const { return of_text(*text); }
  nb::object operator()(const OptionField::Text& text) const { return of_text(text.shown()); }
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
    std::string help = field.help;
    if (const std::size_t place = help.find("{}"); place != std::string::npos) {
      help.replace(place, 2, nb::cast<std::string>(nb::str(value)));
    }
    all.append(nb::make_tuple(field.name, std::visit(TypeName(), field.value), value, help));
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

Rows options_of(const std::string& call) {
  if (call == "finetune") return described_options<FinetuneOptions>();
  if (call == "pretrain_mlm") return described_options<MaskedLmTraining>();
  if (call == "pretrain_lm") return described_options<LanguageModelTraining>();
  if (call == "evaluate_language_model") return described_options<LanguageModelEvaluation>();
  if (call == "evaluate") return described_options<EvaluateOptions>();
  if (call == "convert") return described_options<ConvertOptions>();
  throw nb::key_error(call.c_str());
}

}  // namespace

void bind_described(nb::module_& module) { module.def("options_of", &options_of, "call"_a); }

}  // namespace longformer
