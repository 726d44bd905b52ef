#include "core/option_fields.h"
#include "longformer/explanation.h"
#include "tasks/classification/attribution.h"

namespace longformer {

ExplainMethod explain_method(const std::string& name) {
  for (const ExplainMethod method :
       {ExplainMethod::gradient, ExplainMethod::integrated, ExplainMethod::occlusion}) {
    if (name == name_of(method)) return method;
  }
  fail(OptionName("method"), "expected gradient, integrated or occlusion, found '{}'", name);
}

std::string_view name_of(ExplainMethod method) {
  if (method == ExplainMethod::gradient) return "gradient";
  return method == ExplainMethod::integrated ? "integrated" : "occlusion";
}

OptionFields explain_fields(ExplainOptions& options) {
  return {
      {.name = "label",
       .value = &options.label,
       .help = "class to explain (the one with the best score)",
       .type = "LABEL"},
      with_names({.name = "baseline",
                  .help = "gradients: word embedding that stands for no token: that of the "
                          "padding, of the mask, or zeros; usual: the padding, in models that "
                          "normalise word embeddings alone the mask ({})"},
                 options.baseline,
                 {{"usual", Baseline::usual},
                  {"pad", Baseline::pad},
                  {"mask", Baseline::mask},
                  {"zero", Baseline::zero}}),
      {.name = "steps",
       .value = &options.steps,
       .help = "integrated gradients: points between baseline and document, each a forward and "
               "a backward pass ({})",
       .type = "N",
       .least = 1,
       .most = static_cast<double>(tasks::kMostSteps)},
      {.name = "tolerance",
       .value = &options.tolerance,
       .help = "integrated gradients: error of their sum that is no note, as a share of it ({})",
       .type = "P"},
      with_names({.name = "occlusion", .help = "how a sentence is taken away ({})"},
                 options.occlusion, {{"remove", Occlusion::remove}, {"mask", Occlusion::mask}})};
}

OptionFields fields(ExplainOptions& options) {
  OptionFields all = explain_fields(options);
  append(all, fields(options.reading));
  return all;
}

}  // namespace longformer
