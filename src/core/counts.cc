#include <algorithm>

#include "longformer/report.h"

namespace longformer {
namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

/// 12345 as "12,345".
std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t end = digits.size(); end > 3; end -= 3) digits.insert(end - 3, ",");
  return digits;
}

/// Fills in the sentence of one count.
class SentenceFiller {
 public:
  SentenceFiller(const Counts& counts, const CountContext& context, std::int64_t own)
      : counts_(counts), context_(context), own_(own) {}

  std::string filled(std::string_view sentence) const {
    std::string text;
    while (true) {
      const std::size_t begin = sentence.find('{');
      text += sentence.substr(0, begin);
      if (begin == std::string_view::npos) return text;
      const std::size_t end = sentence.find('}', begin);
      text += field(sentence.substr(begin + 1, end - begin - 1));
      sentence.remove_prefix(end + 1);
    }
  }

 private:
  std::string field(std::string_view field) const {
    if (field == "first_skipped") return std::string(context_.first_skipped);
    const std::vector<std::string_view> parts = split(field, '|');
    std::int64_t number = 0;
    for (const std::string_view name : split(parts[0], '+')) number += number_of(name);
    if (parts.size() == 1) return grouped(number);
    std::string text = grouped(number) + " ";
    text += number == 1 || parts.size() == 2 ? parts[1] : parts[2];
    if (number != 1 && parts.size() == 2) text += "s";
    return text;
  }

  std::int64_t number_of(std::string_view name) const {
    if (name == "n") return own_;
    if (name == "examples") return context_.examples;
    return name == "tokens" ? context_.tokens : counts_[name];
  }

  const Counts& counts_;
  const CountContext& context_;
  std::int64_t own_;
};

}  // namespace

Counts::Counts(std::span<const Counter* const> counters) {
  for (const Counter* counter : counters) counts_.push_back({.counter = counter});
}

std::int64_t& Counts::operator[](const Counter& counter) {
  auto found = std::ranges::find_if(
      counts_, [&](const Count& one) { return one.counter->name == counter.name; });
  if (found == counts_.end()) found = counts_.insert(found, {.counter = &counter});
  // Tasks may say something else of the same number.
  found->counter = &counter;
  return found->number;
}

std::int64_t Counts::operator[](std::string_view name) const {
  const auto found =
      std::ranges::find_if(counts_, [&](const Count& one) { return one.counter->name == name; });
  return found == counts_.end() ? 0 : found->number;
}

std::vector<CountNote> notes_of(const Counts& counts, CountSentence Counter::*sentence,
                                const CountContext& context) {
  std::vector<CountNote> notes;
  for (const auto& [counter, number] : counts.all()) {
    const CountSentence& said = counter->*sentence;
    if (number == 0 || said.many.empty()) continue;
    std::string text =
        SentenceFiller(counts, context, number).filled(number == 1 ? said.one : said.many);
    const auto same = [&](const CountNote& note) { return note.text == text; };
    if (std::ranges::any_of(notes, same)) continue;
    notes.push_back({.scope = counter->scope, .text = std::move(text), .option = counter->option});
  }
  std::ranges::stable_sort(notes, {}, &CountNote::scope);
  return notes;
}

}  // namespace longformer
