#include "attention/page.h"

#include <fmt/format.h>

#include <cmath>
#include <string_view>
#include <utility>

#include "html.h"
#include "output.h"
#include "page_text.h"

namespace longformer::cli {

namespace {

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t word = 0;
    for (std::size_t b = 0; b < 3; ++b) {
      word = word << 8 | (i + b < bytes.size() ? static_cast<std::uint8_t>(bytes[i + b]) : 0u);
    }
    for (std::size_t digit = 0; digit < 4; ++digit) {
      const bool padding = i + digit > bytes.size();
      text += padding ? '=' : kDigits[word >> (18 - 6 * digit) & 63];
    }
  }
  return text;
}

/// The text cut at the tokens: gap 0, token 0, gap 1, …, token n−1, gap n.
struct TextPieces {
  std::vector<std::string> tokens, gaps;
  /// Tokens that the template added; their text is their vocabulary entry.
  std::vector<std::int64_t> special;
};

TextPieces pieces_of(const AttentionDocument& document) {
  const std::string& text = document.source.text;
  const Encoding& encoding = document.encoding;
  const std::vector<std::size_t> starts = character_starts(text);
  const auto part = [&](std::size_t begin, std::size_t end) {
    return text.substr(starts[begin], starts[end] - starts[begin]);
  };
  TextPieces pieces;
  std::size_t done = 0;
  for (std::size_t i = 0; i < encoding.ids.size(); ++i) {
    if (encoding.special_tokens_mask[i] != 0) {
      pieces.special.push_back(static_cast<std::int64_t>(i));
      pieces.gaps.emplace_back();
      pieces.tokens.push_back(document.tokens[i]);
      continue;
    }
    // Tokens that share a character: the first of them shows it.
    const auto begin = std::max(static_cast<std::size_t>(encoding.offsets[i].begin), done);
    const auto end = std::max(static_cast<std::size_t>(encoding.offsets[i].end), begin);
    pieces.gaps.push_back(part(done, begin));
    pieces.tokens.push_back(part(begin, end));
    done = end;
  }
  const bool whole = encoding.truncated == 0;
  pieces.gaps.push_back(whole ? part(done, starts.size() - 1) : std::string());
  return pieces;
}

std::vector<std::string> names(const std::vector<std::optional<std::int64_t>>& numbers) {
  std::vector<std::string> result;
  for (const auto& number : numbers) result.push_back(name_of(number));
  return result;
}

std::string about(const AttentionDocument& document, const std::string& model) {
  const Encoding& encoding = document.encoding;
  std::string text = fmt::format("{} · {}", model, counted(std::ssize(encoding.ids), "token"));
  if (encoding.truncated > 0)
    text += fmt::format(" ({} more cut off)", grouped(encoding.truncated));
  const auto globals = static_cast<std::int64_t>(document.global_positions.size());
  return text + fmt::format(" · {} global, underlined", grouped(globals));
}

}  // namespace

AttentionPage::AttentionPage(const AttentionDocument& document, std::string model,
                             PageLimits limits)
    : model_(std::move(model)),
      heads_(static_cast<std::int64_t>(document.heads.size())),
      limits_(limits),
      key_bytes_(document.tokens.size() <= 65536 ? 2 : 4) {
  limits_.top_k = std::min(limits_.top_k, PageLimits::kMostKeys);
  const TextPieces pieces = pieces_of(document);
  JsonLine json;
  json.add("title", "Attention in " + document.source.label());
  json.add("about", about(document, model_));
  json.add("kept", fmt::format("This file keeps the {} strongest tokens for every token ({} for a "
                               "global one), those of at least {} in probability.",
                               limits_.top_k, std::max(limits_.top_k, PageLimits::kGlobalKeys),
                               limits_.threshold));
  std::vector<std::string> heads = names(document.heads);
  if (heads_ > 1) heads.insert(heads.begin(), name_of(std::nullopt));
  json.add("layers", names(document.layers)).add("heads", heads);
  json.add("key_bytes", std::int64_t{key_bytes_});
  json.add("globals", document.global_positions).add("special", pieces.special);
  json.add("tokens", pieces.tokens).add("gaps", pieces.gaps);
  data_ = escaped_json(json.object());
}

void AttentionPage::add(const AttentionMap& map) {
  write(map);
  if (heads_ == 1) return;
  mean_.add(map);
  if (mean_.count() == heads_) write(mean_.take(map.layer, std::nullopt));
}

void AttentionPage::write(const AttentionMap& map) {
  std::string bytes;
  for (std::int64_t query = 0; query < map.tokens(); ++query) {
    const bool global = map.global_index(query).has_value();
    const auto keys = strongest(
        map, query,
        {.top_k = global ? std::max(limits_.top_k, PageLimits::kGlobalKeys) : limits_.top_k,
         .threshold = limits_.threshold});
    bytes += static_cast<char>(keys.size());
    for (const auto& [key, probability] : keys) {
      for (int b = 0; b < key_bytes_; ++b) bytes += static_cast<char>(key >> (8 * b) & 0xff);
      bytes += static_cast<char>(std::lround(255 * std::sqrt(std::min(probability, 1.0f))));
    }
  }
  maps_ += fmt::format("<script type=\"text/plain\" id=\"map-{}-{}\">{}</script>\n",
                       name_of(map.layer), name_of(map.head), base64(bytes));
}

std::string AttentionPage::html() const {
  std::string page(kAttentionPage);
  const auto put = [&page](std::string_view mark, std::string_view content) {
    page.replace(page.find(mark), mark.size(), content);
  };
  // From the end to the beginning: what was put in is not searched again.
  put("<!--MAPS-->", maps_);
  put("<!--DATA-->", data_);
  put("<!--TITLE-->", escaped_html("Attention: " + model_));
  return page;
}

}  // namespace longformer::cli
