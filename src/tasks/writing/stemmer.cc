#include "tasks/writing/stemmer.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

namespace longformer::tasks {
namespace {

/// Ending and its replacement.
struct Suffix {
  std::string_view ending, replacement;
};

constexpr std::array<std::pair<std::string_view, std::string_view>, 16> kIrregular = {
    {{"sky", "sky"},
     {"skies", "sky"},
     {"dying", "die"},
     {"lying", "lie"},
     {"tying", "tie"},
     {"news", "news"},
     {"innings", "inning"},
     {"inning", "inning"},
     {"outings", "outing"},
     {"outing", "outing"},
     {"cannings", "canning"},
     {"canning", "canning"},
     {"howe", "howe"},
     {"proceed", "proceed"},
     {"exceed", "exceed"},
     {"succeed", "succeed"}}};

constexpr std::array<Suffix, 21> kStep2 = {{
    {"ational", "ate"}, {"tional", "tion"}, {"enci", "ence"}, {"anci", "ance"}, {"izer", "ize"},
    {"bli", "ble"},     {"alli", "al"},     {"entli", "ent"}, {"eli", "e"},     {"ousli", "ous"},
    {"ization", "ize"}, {"ation", "ate"},   {"ator", "ate"},  {"alism", "al"},  {"iveness", "ive"},
    {"fulness", "ful"}, {"ousness", "ous"}, {"aliti", "al"},  {"iviti", "ive"}, {"biliti", "ble"},
    {"fulli", "ful"},
}};
constexpr std::array<Suffix, 7> kStep3 = {{{"icate", "ic"},
                                           {"ative", ""},
                                           {"alize", "al"},
                                           {"iciti", "ic"},
                                           {"ical", "ic"},
                                           {"ful", ""},
                                           {"ness", ""}}};
constexpr std::array<std::string_view, 19> kStep4 = {
    "al",  "ance", "ence", "er",  "ic",  "able", "ible", "ant", "ement", "ment",
    "ent", "ion",  "ou",   "ism", "ate", "iti",  "ous",  "ive", "ize"};

/// y is a consonant at the beginning and behind a vowel.
bool is_consonant(std::string_view word, std::size_t i) {
  constexpr std::string_view kVowels = "aeiou";
  if (kVowels.find(word[i]) != std::string_view::npos) return false;
  return word[i] != 'y' || i == 0 || !is_consonant(word, i - 1);
}

/// How often a consonant follows a vowel: m of the paper.
int measure(std::string_view word) {
  int count = 0;
  for (std::size_t i = 1; i < word.size(); ++i) {
    count += is_consonant(word, i) && !is_consonant(word, i - 1) ? 1 : 0;
  }
  return count;
}

bool has_vowel(std::string_view word) {
  for (std::size_t i = 0; i < word.size(); ++i) {
    if (!is_consonant(word, i)) return true;
  }
  return false;
}

bool ends_double(std::string_view word) {
  const std::size_t n = word.size();
  return n >= 2 && word[n - 1] == word[n - 2] && is_consonant(word, n - 1);
}

/// *o of the paper: ends in consonant, vowel, consonant, of which the last is not w, x or y; NLTK
/// adds words of a vowel and a consonant.
bool ends_short(std::string_view word) {
  const std::size_t n = word.size();
  if (n == 2) return !is_consonant(word, 0) && is_consonant(word, 1);
  return n >= 3 && is_consonant(word, n - 3) && !is_consonant(word, n - 2) &&
         is_consonant(word, n - 1) &&
         std::string_view("wxy").find(word[n - 1]) == std::string_view::npos;
}

std::string_view without(std::string_view word, std::string_view ending) {
  return word.substr(0, word.size() - ending.size());
}

void replace(std::string& word, std::string_view ending, std::string_view replacement) {
  word.resize(word.size() - ending.size());
  word += replacement;
}

/// The first ending of a list that fits decides, even where its condition does not hold.
void replace_first(std::string& word, std::span<const Suffix> suffixes) {
  for (const auto& [ending, replacement] : suffixes) {
    if (!word.ends_with(ending)) continue;
    if (measure(without(word, ending)) > 0) replace(word, ending, replacement);
    return;
  }
}

void plurals(std::string& word) {
  if (word.ends_with("ies") && word.size() == 4) return replace(word, "s", "");
  for (const auto& [ending, replacement] :
       {Suffix{"sses", "ss"}, {"ies", "i"}, {"ss", "ss"}, {"s", ""}}) {
    if (word.ends_with(ending)) return replace(word, ending, replacement);
  }
}

void past_and_ing(std::string& word) {
  if (word.ends_with("ied")) return replace(word, "ied", word.size() == 4 ? "ie" : "i");
  if (word.ends_with("eed")) {
    if (measure(without(word, "eed")) > 0) replace(word, "eed", "ee");
    return;
  }
  for (const std::string_view ending : {"ed", "ing"}) {
    if (!word.ends_with(ending) || !has_vowel(without(word, ending))) continue;
    replace(word, ending, "");
    const bool wants_e = word.ends_with("at") || word.ends_with("bl") || word.ends_with("iz");
    if (!wants_e && ends_double(word)) {
      if (std::string_view("lsz").find(word.back()) == std::string_view::npos) word.pop_back();
    } else if (wants_e || (measure(word) == 1 && ends_short(word))) {
      word += 'e';
    }
    return;
  }
}

void final_y(std::string& word) {
  if (!word.ends_with('y')) return;
  const std::string_view stem = without(word, "y");
  if (stem.size() > 1 && is_consonant(stem, stem.size() - 1)) word.back() = 'i';
}

void step2(std::string& word) {
  while (word.ends_with("alli") && measure(without(word, "alli")) > 0) replace(word, "alli", "al");
  const std::size_t before = word.size();
  const bool fits = std::any_of(kStep2.begin(), kStep2.end(), [&](const Suffix& suffix) {
    return word.ends_with(suffix.ending);
  });
  replace_first(word, kStep2);
  if (!fits && word.size() == before && word.ends_with("logi") &&
      measure(without(word, "ogi")) > 0) {
    replace(word, "logi", "log");
  }
}

void step4(std::string& word) {
  for (const std::string_view ending : kStep4) {
    if (!word.ends_with(ending)) continue;
    const std::string_view stem = without(word, ending);
    const bool good = ending != "ion" || stem.ends_with('s') || stem.ends_with('t');
    if (good && measure(stem) > 1) replace(word, ending, "");
    return;
  }
}

void step5(std::string& word) {
  if (word.ends_with('e')) {
    const std::string_view stem = without(word, "e");
    const int m = measure(stem);
    if (m > 1 || (m == 1 && !ends_short(stem))) word.pop_back();
  }
  if (word.ends_with("ll") && measure(without(word, "l")) > 1) word.pop_back();
}

}  // namespace

std::string stem(std::string word) {
  for (const auto& [irregular, result] : kIrregular) {
    if (word == irregular) return std::string(result);
  }
  if (word.size() <= 2) return word;
  plurals(word);
  past_and_ing(word);
  final_y(word);
  step2(word);
  replace_first(word, kStep3);
  step4(word);
  step5(word);
  return word;
}

}  // namespace longformer::tasks
