// classify --explain: why documents belong to a class, as lines, JSON or a page.
#pragma once

#include <cstdint>
#include <string>

#include "flags.h"
#include "inputs.h"
#include "longformer/explanation.h"
#include "messages.h"

namespace longformer::cli {

struct ExplainFlags {
  /// Empty: nothing is explained.
  std::string method;
  /// Lines of each document; 0: all.
  std::int64_t top = 20;
  ExplainOptions options;

  bool is_wanted() const { return !method.empty(); }
};

/// --explain and the options beside it.
void add_explain(CLI::App& verb, ExplainFlags& flags);

/// A run of `classify` that explains.
struct ExplainRun {
  const ExplainFlags& flags;
  const ModelFlags& model;
  const InputOptions& inputs;
  /// How documents are read.
  const ClassifyOptions& reading;
  /// Classes of each document in JSON; 0: all.
  std::int64_t top_k = 1;
};
void run_explain(const ExplainRun& run, Messages& messages);

}  // namespace longformer::cli
