#include "text/normalization.h"

#include <algorithm>
#include <string>

#include "text/graphemes.h"
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
// another, whatever order the new ones were sorted into. `tokenizers` loses the count of old
// characters that nothing replaces where they begin the text; the others then move to the left.
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

std::vector<Change> decomposed(const Characters& characters, Decomposition form) {
  std::vector<Change> changes;
  std::u32string parts;
  for (const auto& c : characters) {
    parts.clear();
    append_decomposition(c.value, parts, form);
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

// Writes what stands for `old_count` characters behind the changes, as `tokenizers` counts them.
void append_replacement(std::string_view replacement, int old_count, std::vector<Change>& changes) {
  int new_count = 0;
  for (std::size_t i = 0; i < replacement.size(); ++new_count) {
    const auto character = decode_valid(replacement.data() + i);
    changes.push_back({character.value, new_count >= old_count});
    i += character.size;
  }
  if (new_count < old_count && !changes.empty()) changes.back().change += new_count - old_count;
}

// Graphemes of less than six bytes are replaced as a whole by what stands for a key that they begin
// with; others character by character.
std::vector<Change> mapped(const Characters& characters, const CharacterMap& map) {
  constexpr std::size_t longest = 5;
  std::vector<Change> changes;
  changes.reserve(characters.size());
  GraphemeBreaks breaks;
  std::string bytes;
  if (!characters.empty()) breaks.begins(characters[0].value);
  for (std::size_t begin = 0, end; begin < characters.size(); begin = end) {
    bytes.clear();
    append_utf8(characters[begin].value, bytes);
    for (end = begin + 1; end < characters.size() && !breaks.begins(characters[end].value); ++end) {
      if (bytes.size() <= longest) append_utf8(characters[end].value, bytes);
    }
    if (const auto found = bytes.size() <= longest ? map.find(bytes) : std::nullopt) {
      append_replacement(*found, static_cast<int>(end - begin), changes);
      continue;
    }
    for (auto i = begin; i < end; ++i) {
      bytes.clear();
      append_utf8(characters[i].value, bytes);
      if (const auto found = map.find(bytes)) {
        append_replacement(*found, 1, changes);
      } else {
        changes.push_back({characters[i].value, 0});
      }
    }
  }
  return changes;
}

bool is_dropped_by_nmt(char32_t c) {
  return (c >= 0x01 && c <= 0x08) || c == 0x0b || (c >= 0x0e && c <= 0x1f) || c == 0x7f ||
         c == 0x8f || c == 0x9f;
}

bool is_space_for_nmt(char32_t c) {
  return c == 0x09 || c == 0x0a || c == 0x0c || c == 0x0d || c == 0x1680 ||
         (c >= 0x200b && c <= 0x200f) || c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xfeff ||
         c == 0xfffd;
}

void clean_as_nmt(Characters& characters) {
  filter(characters, [](char32_t c) { return !is_dropped_by_nmt(c); });
  for (auto& c : characters) {
    if (is_space_for_nmt(c.value)) c.value = ' ';
  }
}

void strip_ends(Characters& characters, bool left, bool right) {
  const auto keeps = [](const NormalizedCharacter& c) {
    return !has_flag(c.value, CharacterFlags::whitespace);
  };
  if (right) {
    const auto last = std::find_if(characters.rbegin(), characters.rend(), keeps);
    characters.erase(last.base(), characters.end());
  }
  if (left) {
    characters.erase(characters.begin(), std::find_if(characters.begin(), characters.end(), keeps));
  }
}

// How many characters from `begin` on a step takes: those that match its pattern, or else some that
// stay as they are.
struct Taken {
  std::size_t size;
  bool matches;
};

Taken take(const Characters& characters, std::size_t begin, const NormalizationStep& step) {
  const auto at = [&](std::size_t i) { return characters[begin + i].value; };
  const auto available = characters.size() - begin;
  std::size_t size = 0;
  if (step.joins_spaces) {
    while (size < available && has_flag(at(size), CharacterFlags::whitespace)) ++size;
    const bool breaks = size == 1 && (at(0) == U'\n' || at(0) == U'\r' || at(0) == U'\t');
    return {std::max<std::size_t>(size, 1), size > 1 || breaks};
  }
  if (step.run > 0) {
    while (size < available && at(size) == step.pattern[0]) ++size;
    return {std::max<std::size_t>(size, 1), size >= step.run};
  }
  if (available < step.pattern.size()) return {1, false};
  while (size < step.pattern.size() && at(size) == step.pattern[size]) ++size;
  return size == step.pattern.size() ? Taken{size, true} : Taken{1, false};
}

// A replacement stands at the place of the last character that it replaces.
Characters replaced(const Characters& characters, const NormalizationStep& step) {
  Characters result;
  result.reserve(characters.size());
  for (std::size_t i = 0; i < characters.size();) {
    const auto [size, matches] = take(characters, i, step);
    if (matches) {
      const auto& last = characters[i + size - 1];
      for (const auto value : step.content) result.push_back({value, last.begin, last.end});
    } else {
      result.insert(result.end(), characters.begin() + static_cast<std::ptrdiff_t>(i),
                    characters.begin() + static_cast<std::ptrdiff_t>(i + size));
    }
    i += size;
  }
  return result;
}

void prepend(Characters& characters, const std::u32string& content) {
  if (characters.empty()) return;
  const auto first = characters.front();
  Characters inserted;
  for (const auto value : content) inserted.push_back({value, first.begin, first.end});
  characters.insert(characters.begin(), inserted.begin(), inserted.end());
}

void apply(const NormalizationStep& step, Characters& characters, std::uint32_t start,
           TextEnds ends) {
  using Kind = NormalizationKind;
  const auto change = [&](const std::vector<Change>& changes) {
    characters = apply(characters, changes, start);
  };
  switch (step.kind) {
    case Kind::clean:
      return clean(characters);
    case Kind::space_chinese:
      return change(chinese_with_spaces(characters));
    case Kind::decompose:
      return change(decomposed(characters, Decomposition::canonical));
    case Kind::compose:
      return change(composed(decomposed(characters, Decomposition::canonical)));
    case Kind::decompose_compatible:
      return change(decomposed(characters, Decomposition::compatible));
    case Kind::compose_compatible:
      return change(composed(decomposed(characters, Decomposition::compatible)));
    case Kind::strip_nonspacing:
      return filter(characters,
                    [](char32_t c) { return !has_flag(c, CharacterFlags::nonspacing); });
    case Kind::strip_marks:
      return filter(characters, [](char32_t c) { return !has_flag(c, CharacterFlags::mark); });
    case Kind::lowercase:
      return change(lowercased(characters));
    case Kind::nmt:
      return clean_as_nmt(characters);
    case Kind::map:
      return change(mapped(characters, *step.map));
    case Kind::strip_ends:
      return strip_ends(characters, step.left && ends.begin, step.right && ends.end);
    case Kind::replace:
      characters = replaced(characters, step);
      return;
    case Kind::prepend:
      if (ends.begin) prepend(characters, step.content);
      return;
  }
}

Characters characters_of(std::string_view text, std::size_t begin, std::size_t end) {
  Characters characters;
  characters.reserve(end - begin);
  for (auto i = begin; i < end;) {
    const auto c = decode_valid(text.data() + i);
    characters.push_back(
        {c.value, static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i + c.size)});
    i += c.size;
  }
  return characters;
}

}  // namespace

bool contains(const std::vector<NormalizationStep>& steps, NormalizationKind kind) {
  return std::any_of(steps.begin(), steps.end(),
                     [kind](const NormalizationStep& step) { return step.kind == kind; });
}

std::vector<NormalizedCharacter> normalize(const std::vector<NormalizationStep>& steps,
                                           std::string_view text, std::size_t begin,
                                           std::size_t end, TextEnds ends) {
  auto characters = characters_of(text, begin, end);
  for (const auto& step : steps) apply(step, characters, static_cast<std::uint32_t>(begin), ends);
  return characters;
}

std::string composed(std::string_view text) {
  if (is_ascii(text) || !is_valid_utf8(text)) return std::string(text);
  std::string all;
  const std::vector steps = {NormalizationStep(NormalizationKind::compose)};
  for (const auto& one : normalize(steps, text, 0, text.size())) append_utf8(one.value, all);
  return all;
}

bool are_equivalent(std::string_view a, std::string_view b) {
  return a == b || (!is_ascii(a) && !is_ascii(b) && composed(a) == composed(b));
}

bool drops_beginning(const std::vector<NormalizationStep>& steps, std::string_view part) {
  auto characters = characters_of(part, 0, part.size());
  for (const auto& step : steps) {
    if (step.kind == NormalizationKind::map) {
      std::size_t kept = 0;
      for (const auto& [value, change] : mapped(characters, *step.map)) {
        if (change <= 0) kept += 1 + static_cast<std::size_t>(-change);
      }
      if (kept < characters.size()) return true;
    }
    apply(step, characters, 0, {});
  }
  return false;
}

bool depends_on_context(const std::vector<NormalizationStep>& steps) {
  using Kind = NormalizationKind;
  return contains(steps, Kind::map) || contains(steps, Kind::strip_ends) ||
         contains(steps, Kind::replace) || contains(steps, Kind::prepend);
}

}  // namespace longformer::text
