// Attention of a text to the document that it is about, sentence by sentence.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "attention/reports.h"
#include "inputs.h"
#include "longformer/generation.h"
#include "output.h"

namespace longformer::cli {

struct Sentence {
  /// Characters of its text.
  std::size_t begin = 0, end = 0;
  std::string text;
};

/// The weights of tokens, summed up.
struct SentenceAttention {
  std::vector<Sentence> document, text;
  /// For each sentence of the text and each of the document: the mean over the tokens of the former
  /// of how much weight they give to all tokens of the latter. What is missing to 1 goes to special
  /// tokens.
  std::vector<std::vector<float>> shares;
};
SentenceAttention by_sentences(const std::string& document, const std::string& text,
                               const SourceAttention& weights);

/// The line of names above the lines of all documents.
constexpr std::string_view kSourceColumns = "document\tsentence\tshare\tbegin\tend\tsource\n";

/// One document as lines, JSON or a page.
void print_sources(Output& output, const Document& document, const SentenceAttention& shown,
                   const ReportOptions& options);

}  // namespace longformer::cli
