// An explanation as a self-contained HTML page: the text with its words tinted.
#pragma once

#include <string>

#include "inputs.h"
#include "longformer/explanation.h"

namespace longformer::cli {

/// A document with what explains its class, and the name of the model.
struct ExplainedText {
  const Document& document;
  const Explanation& explanation;
  const std::string& model;
};

std::string explanation_page(const ExplainedText& explained);

}  // namespace longformer::cli
