#include "attention/sources.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string_view>

#include "attention/page.h"
#include "html.h"
#include "longformer/model.h"
#include "longformer/text.h"
#include "page_text.h"

namespace longformer::cli {
namespace {

/// The sentences of a text, and of each of its tokens the one that it belongs to; −1 for special
/// tokens.
struct Sentences {
  std::vector<Sentence> all;
  std::vector<std::int64_t> of_tokens;
};

Sentences sentences_of(const std::string& text, const Encoding& tokens) {
  const auto first = GlobalAttention::parse("sentences").mask(tokens, text);
  const std::vector<std::size_t> starts = character_starts(text);
  Sentences sentences;
  for (std::size_t i = 0; i < tokens.ids.size(); ++i) {
    if (tokens.special_tokens_mask[i] != 0) {
      sentences.of_tokens.push_back(-1);
      continue;
    }
    const auto end = static_cast<std::size_t>(tokens.offsets[i].end);
    if (first[i] == 1 || sentences.all.empty()) {
      sentences.all.push_back({static_cast<std::size_t>(tokens.offsets[i].begin), end, {}});
    }
    sentences.all.back().end = std::max(sentences.all.back().end, end);
    sentences.of_tokens.push_back(static_cast<std::int64_t>(sentences.all.size()) - 1);
  }
  for (Sentence& sentence : sentences.all) {
    // Tokens may begin with the space before a word.
    const auto is_blank = [&](std::size_t character) {
      return std::string_view(" \t\r\n").find(text[starts[character]]) != std::string_view::npos;
    };
    while (sentence.begin + 1 < sentence.end && is_blank(sentence.begin)) ++sentence.begin;
    while (sentence.begin + 1 < sentence.end && is_blank(sentence.end - 1)) --sentence.end;
    sentence.text =
        text.substr(starts[sentence.begin], starts[sentence.end] - starts[sentence.begin]);
  }
  return sentences;
}

/// Sentences of the document by their share, the largest first.
std::vector<std::size_t> strongest(const std::vector<float>& shares, const ReportOptions& options) {
  std::vector<std::size_t> order(shares.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return shares[a] > shares[b]; });
  std::erase_if(order, [&](std::size_t i) { return shares[i] < options.limits.threshold; });
  if (options.limits.top_k > 0) {
    order.resize(std::min(order.size(), static_cast<std::size_t>(options.limits.top_k)));
  }
  return order;
}

JsonLine described(const Sentence& sentence) {
  JsonLine json;
  json.add("begin", static_cast<std::int64_t>(sentence.begin));
  json.add("end", static_cast<std::int64_t>(sentence.end)).add("text", sentence.text);
  return json;
}

void print_lines(Output& output, const Document& document, const SentenceAttention& shown,
                 const ReportOptions& options) {
  for (std::size_t s = 0; s < shown.text.size(); ++s) {
    for (const std::size_t i : strongest(shown.shares[s], options)) {
      const Sentence& source = shown.document[i];
      output.write(fmt::format("{}\t{}\t{:.4f}\t{}\t{}\t{}\n", options.field(document.field()),
                               options.field(on_one_line(shown.text[s].text)), shown.shares[s][i],
                               source.begin, source.end, options.field(on_one_line(source.text))));
    }
  }
}

void print_json(Output& output, const Document& document, const SentenceAttention& shown,
                const ReportOptions& options) {
  std::vector<JsonLine> sentences;
  for (std::size_t s = 0; s < shown.text.size(); ++s) {
    std::vector<JsonLine> sources;
    for (const std::size_t i : strongest(shown.shares[s], options)) {
      sources.push_back(described(shown.document[i]).add("share", shown.shares[s][i]));
    }
    sentences.push_back(described(shown.text[s]).add_objects("sources", sources));
  }
  output.write_object(document.json().add_objects("sentences", sentences).object());
}

void print_page(Output& output, const Document& document, const SentenceAttention& shown,
                const ReportOptions& options) {
  JsonLine json;
  std::vector<std::string> sources, gaps;
  const std::vector<std::size_t> starts = character_starts(document.text);
  std::size_t done = 0;
  for (const Sentence& sentence : shown.document) {
    gaps.push_back(document.text.substr(starts[done], starts[sentence.begin] - starts[done]));
    sources.push_back(sentence.text);
    done = sentence.end;
  }
  json.add("title", "What the text looks at in " + document.label());
  json.add("about", options.model).add("gaps", gaps).add("document", sources);
  std::vector<JsonLine> sentences;
  for (std::size_t s = 0; s < shown.text.size(); ++s) {
    JsonLine& line = sentences.emplace_back();
    line.add("text", shown.text[s].text).add("shares", std::span<const float>(shown.shares[s]));
  }
  output.write(filled_page(kSourcesPage, "Sources: " + options.model,
                           json.add_objects("text", sentences).object()));
}

}  // namespace

SentenceAttention by_sentences(const std::string& document, const std::string& text,
                               const SourceAttention& weights) {
  Sentences sources = sentences_of(document, weights.document);
  Sentences written = sentences_of(text, weights.text);
  SentenceAttention result = {
      .document = std::move(sources.all), .text = std::move(written.all), .shares = {}};
  result.shares.assign(result.text.size(), std::vector<float>(result.document.size(), 0.0f));
  std::vector<float> tokens(result.text.size(), 0.0f);
  const std::size_t width = sources.of_tokens.size();
  for (std::size_t t = 0; t < written.of_tokens.size(); ++t) {
    if (written.of_tokens[t] < 0) continue;
    const auto s = static_cast<std::size_t>(written.of_tokens[t]);
    ++tokens[s];
    for (std::size_t i = 0; i < width; ++i) {
      if (sources.of_tokens[i] < 0) continue;
      result.shares[s][static_cast<std::size_t>(sources.of_tokens[i])] +=
          weights.weights[t * width + i];
    }
  }
  for (std::size_t s = 0; s < result.text.size(); ++s) {
    for (float& share : result.shares[s]) share /= tokens[s];
  }
  return result;
}

void print_sources(Output& output, const Document& document, const SentenceAttention& shown,
                   const ReportOptions& options) {
  if (options.format == AttentionFormat::html) return print_page(output, document, shown, options);
  if (options.format == AttentionFormat::json) return print_json(output, document, shown, options);
  print_lines(output, document, shown, options);
}

}  // namespace longformer::cli
