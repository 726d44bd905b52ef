// The forms in which the verb `coref` gives its result.
#pragma once

#include <string>

#include "inputs.h"
#include "longformer/tasks.h"
#include "output.h"

namespace longformer::cli {

enum class CoreferenceFormat {
  text,
  json,
  conll,
  marked,
  html,
  table,  ///< CSV, whose rows the caller writes
};

/// A document with its text, and what was found in it.
struct ResolvedDocument {
  const Document& document;
  const CoreferenceOutcome& found;
  /// Name of the model on a page.
  const std::string& model;
};

/// text: cluster, first character, last + 1 and text of each mention in order of the document, a
/// line each; json: one line; marked: the text with "[3 the mention]" around mentions of cluster 3,
/// numbered from 1 as in the lines.
void write_coreference(Output& output, const ResolvedDocument& resolved, CoreferenceFormat format);

}  // namespace longformer::cli
