#include "tasks/multi_hop/edge_rules.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "tasks/question_answering/answers.h"
#include "text/unicode.h"

namespace longformer::tasks {
namespace {

using models::Edge;

/// A run of letters, digits and marks.
struct Word {
  std::string_view letters;
  /// Characters of the text.
  CharacterSpan place;
  bool is_capital = false;
  /// Nothing but blanks and hyphens stands between it and the word before.
  bool continues = false;
};

std::string lowered(std::string_view letters) {
  std::u32string lower;
  for (std::size_t i = 0; i < letters.size();) {
    const text::DecodedCharacter character = text::decode_character(letters, i);
    text::append_lowercase(character.value, lower);
    i += character.size;
  }
  std::string bytes;
  for (const char32_t character : lower) text::append_utf8(character, bytes);
  return bytes;
}

bool is_capital(char32_t character) {
  std::u32string lower;
  text::append_lowercase(character, lower);
  return lower.size() != 1 || lower[0] != character;
}

std::vector<Word> words_of(std::string_view text) {
  std::vector<Word> words;
  bool is_inside = false, continues = false;
  std::size_t begin = 0;
  Index number = 0;
  for (std::size_t i = 0; i < text.size(); ++number) {
    const text::DecodedCharacter character = text::decode_character(text, i);
    const std::uint16_t flags = text::character_flags(character.value);
    const bool is_letter = (flags & text::CharacterFlags::word) != 0;
    if (is_letter && !is_inside) {
      begin = i;
      words.push_back({.letters = {},
                       .place = {number, number},
                       .is_capital = is_capital(character.value),
                       .continues = continues});
      continues = true;
    }
    const bool is_between =
        (flags & text::CharacterFlags::whitespace) != 0 || character.value == U'-';
    if (!is_letter && !is_between) continues = false;
    i += character.size;
    if (is_letter) {
      words.back().letters = text.substr(begin, i - begin);
      words.back().place.end = number + 1;
    }
    is_inside = is_letter;
  }
  return words;
}

/// The words of all texts, and which are of names.
class NameWords {
 public:
  explicit NameWords(std::span<const LinkedText> texts) : texts_(texts) {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::vector<Word>& words = words_.emplace_back(words_of(texts[i].text));
      for (std::size_t w = 0; w < words.size(); ++w) {
        if (!words[w].is_capital) small_.insert(words[w].letters);
        if (words[w].is_capital && !begins(i, w)) inside_.insert(words[w].letters);
      }
    }
  }

  const std::vector<Word>& of_text(std::size_t text) const { return words_[text]; }
  bool is_of_name(std::size_t text, std::size_t number) const {
    const Word& word = words_[text][number];
    if (!word.is_capital || !begins(text, number)) return word.is_capital;
    return inside_.contains(word.letters) && !small_.contains(lowered(word.letters));
  }

 private:
  bool begins(std::size_t text, std::size_t number) const {
    return number == 0 && !texts_[text].is_title;
  }

  std::span<const LinkedText> texts_;
  std::vector<std::vector<Word>> words_;
  std::set<std::string_view> small_, inside_;
};

/// The tokens of words that were read whole.
std::optional<TokenRange> tokens_of(const LinkedText& text, CharacterSpan characters) {
  const auto found = answer_tokens(text.offsets, {0, std::ssize(text.offsets)}, characters);
  const bool is_whole = found && text.offsets[at(found->end - 1)].end >= characters.end;
  if (!is_whole) return std::nullopt;
  return TokenRange{text.first + found->begin, text.first + found->end};
}

class Links {
 public:
  explicit Links(std::size_t kind) : kind_(static_cast<std::int32_t>(kind)) {}

  void add(TokenRange a, TokenRange b) {
    for (Index i = a.begin; i < a.end; ++i) {
      for (Index j = b.begin; j < b.end; ++j) {
        const auto from = static_cast<std::int32_t>(i), to = static_cast<std::int32_t>(j);
        edges_.push_back({from, to, kind_});
        edges_.push_back({to, from, kind_});
      }
    }
  }
  std::vector<Edge> take() && { return std::move(edges_); }

 private:
  std::int32_t kind_;
  std::vector<Edge> edges_;
};

std::vector<Edge> name_edges(std::span<const LinkedText> texts, std::size_t kind) {
  Links links(kind);
  for (const std::vector<Mention>& name : mentions_of_names(texts)) {
    for (std::size_t i = 0; i < name.size(); ++i) {
      for (std::size_t j = i + 1; j < std::min(name.size(), i + 1 + kMostLinks); ++j) {
        if (name[i].text != name[j].text) links.add(name[i].tokens, name[j].tokens);
      }
    }
  }
  return std::move(links).take();
}

/// The words of a title without what stands in brackets at its end.
std::vector<std::string_view> title_words(std::string_view title) {
  const std::size_t bracket = title.find(" (");
  std::vector<std::string_view> words;
  for (const Word& word : words_of(title.substr(0, bracket))) words.push_back(word.letters);
  return words;
}

/// Places of the words in the text, one behind the other.
std::vector<CharacterSpan> places_of(std::span<const std::string_view> title,
                                     std::span<const Word> words) {
  std::vector<CharacterSpan> places;
  for (std::size_t i = 0; !title.empty() && i + title.size() <= words.size(); ++i) {
    const bool is_here = std::equal(title.begin(), title.end(), words.begin() + i,
                                    [](auto a, const Word& b) { return a == b.letters; });
    if (!is_here) continue;
    places.push_back({words[i].place.begin, words[i + title.size() - 1].place.end});
  }
  return places;
}

std::vector<Edge> title_edges(std::span<const LinkedText> texts, std::size_t kind) {
  std::vector<std::vector<Word>> words;
  for (const LinkedText& text : texts) words.push_back(words_of(text.text));
  Links links(kind);
  for (const LinkedText& title : texts) {
    if (!title.is_title) continue;
    const TokenRange tokens = {title.first, title.first + std::ssize(title.offsets)};
    const std::vector<std::string_view> letters = title_words(title.text);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const LinkedText& text = texts[i];
      if (text.is_title && text.paragraph == title.paragraph) continue;
      if (text.paragraph == title.paragraph) {
        links.add(tokens, {text.first, text.first + 1});
        if (text.mark != kUnread) links.add(tokens, {text.mark, text.mark + 1});
        continue;
      }
      for (const CharacterSpan& place : places_of(letters, words[i])) {
        if (const auto mention = tokens_of(text, place)) links.add(tokens, *mention);
      }
    }
  }
  return std::move(links).take();
}

}  // namespace

std::vector<std::vector<Mention>> mentions_of_names(std::span<const LinkedText> texts) {
  const NameWords words(texts);
  std::map<std::string, std::vector<Mention>> names;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::vector<Word>& all = words.of_text(i);
    for (std::size_t w = 0; w < all.size();) {
      const std::size_t begin = w;
      std::string name;
      while (w < all.size() && (w == begin || all[w].continues) && words.is_of_name(i, w)) {
        name += w == begin ? "" : " ";
        name += all[w++].letters;
      }
      if (w == begin) {
        ++w;
        continue;
      }
      const auto tokens = tokens_of(texts[i], {all[begin].place.begin, all[w - 1].place.end});
      if (tokens) names[name].push_back({i, *tokens});
    }
  }
  std::vector<std::vector<Mention>> several;
  for (auto& [name, mentions] : names) {
    if (mentions.size() > 1) several.push_back(std::move(mentions));
  }
  return several;
}

std::vector<Edge> linked_tokens(std::span<const LinkedText> texts,
                                std::span<const std::string> kinds) {
  std::vector<Edge> edges;
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    const auto more =
        kinds[kind] == models::kNameEdges ? name_edges(texts, kind) : title_edges(texts, kind);
    edges.insert(edges.end(), more.begin(), more.end());
  }
  return edges;
}

}  // namespace longformer::tasks
