#include "text/normalization.h"

#include <algorithm>
#include <string>

#include "text/unicode.h"

namespace longformer::text {
namespace {

using Characters = std::vector<NormalizedCharacter>;

// A character of the new text: 1 for an inserted one, which shares the place of the one before it;
// 0 for one that replaces the next old character; −n for one that replaces n + 1 old characters.
struct Change {
  char32_t value;
  int change;
};

// Places the new characters over the old ones, as `tokenizers` does: one old character after
// another, whatever order the new ones were sorted into.
Characters apply(const Characters& old, const std::vector<Change>& changes, std::uint32_t start) {
  Characters result;
  result.reserve(changes.size());
  std::size_t position = 0;
  for (const auto& [value, change] : changes) {
    if (change > 0) {
      const auto begin = position == 0 ? start : old[position - 1].begin;
      const auto end = position == 0 ? start : old[position - 1].end;
      result.push_back({value, begin, end});
    } else {
      result.push_back({value, old[position].begin, old[position].end});
      position += 1 + static_cast<std::size_t>(-change);
    }
  }
  return result;
}

template <typename Keep>
void filter(Characters& characters, const Keep& keep) {
  std::erase_if(characters, [&](const NormalizedCharacter& c) { return !keep(c.value); });
}

bool has_flag(char32_t character, std::uint16_t flag) {
  return (character_flags(character) & flag) != 0;
}

void clean(Characters& characters) {
  filter(characters, [](char32_t c) { return !has_flag(c, CharacterFlags::dropped); });
  for (auto& c : characters) {
    if (has_flag(c.value, CharacterFlags::whitespace)) c.value = ' ';
  }
}

std::vector<Change> chinese_with_spaces(const Characters& characters) {
  std::vector<Change> changes;
  for (const auto& c : characters) {
    const bool chinese = is_chinese_character(c.value);
    if (chinese) changes.push_back({' ', 0});
    changes.push_back({c.value, chinese});
    if (chinese) changes.push_back({' ', 1});
  }
  return changes;
}

std::vector<Change> decomposed(const Characters& characters) {
  std::vector<Change> changes;
  std::u32string parts;
  for (const auto& c : characters) {
    parts.clear();
    append_decomposition(c.value, parts);
    for (std::size_t i = 0; i < parts.size(); ++i) changes.push_back({parts[i], i > 0});
  }
  const auto class_of = [](const Change& c) { return combining_class(c.value); };
  for (auto run = changes.begin(); run != changes.end();) {
    run = std::find_if(run, changes.end(), [&](const Change& c) { return class_of(c) != 0; });
    const auto end =
        std::find_if(run, changes.end(), [&](const Change& c) { return class_of(c) == 0; });
    std::stable_sort(run, end,
                     [&](const Change& a, const Change& b) { return class_of(a) < class_of(b); });
    run = end;
  }
  return changes;
}

// Canonical composition of decomposed text; a composed character replaces all that it is made of.
std::vector<Change> composed(const std::vector<Change>& changes) {
  std::vector<Change> result;
  std::ptrdiff_t starter = -1;
  int last_class = 0;
  for (const auto& next : changes) {
    const auto next_class = combining_class(next.value);
    const bool adjacent = starter == static_cast<std::ptrdiff_t>(result.size()) - 1;
    if (starter >= 0 && (adjacent || last_class < next_class)) {
      auto& base = result[static_cast<std::size_t>(starter)];
      if (const auto whole = compose(base.value, next.value)) {
        base = {whole, base.change + next.change - 1};
        continue;
      }
    }
    if (next_class == 0) starter = static_cast<std::ptrdiff_t>(result.size());
    last_class = next_class;
    result.push_back(next);
  }
  return result;
}

std::vector<Change> lowercased(const Characters& characters) {
  std::vector<Change> changes;
  std::u32string parts;
  for (const auto& c : characters) {
    parts.clear();
    append_lowercase(c.value, parts);
    for (std::size_t i = 0; i < parts.size(); ++i) changes.push_back({parts[i], i > 0});
  }
  return changes;
}

}  // namespace

std::vector<NormalizedCharacter> normalize(const std::vector<NormalizationStep>& steps,
                                           std::string_view text, std::size_t begin,
                                           std::size_t end) {
  Characters characters;
  characters.reserve(end - begin);
  for (auto i = begin; i < end;) {
    const auto c = decode_valid(text.data() + i);
    characters.push_back(
        {c.value, static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i + c.size)});
    i += c.size;
  }
  const auto start = static_cast<std::uint32_t>(begin);
  for (const auto step : steps) {
    switch (step) {
      case NormalizationStep::clean:
        clean(characters);
        break;
      case NormalizationStep::space_chinese:
        characters = apply(characters, chinese_with_spaces(characters), start);
        break;
      case NormalizationStep::decompose:
        characters = apply(characters, decomposed(characters), start);
        break;
      case NormalizationStep::compose:
        characters = apply(characters, composed(decomposed(characters)), start);
        break;
      case NormalizationStep::strip_nonspacing:
        filter(characters, [](char32_t c) { return !has_flag(c, CharacterFlags::nonspacing); });
        break;
      case NormalizationStep::strip_marks:
        filter(characters, [](char32_t c) { return !has_flag(c, CharacterFlags::mark); });
        break;
      case NormalizationStep::lowercase:
        characters = apply(characters, lowercased(characters), start);
        break;
    }
  }
  return characters;
}

}  // namespace longformer::text
