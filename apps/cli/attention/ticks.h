// Labels along the axes of a picture.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "attention/cells.h"

namespace longformer::cli {

inline constexpr Color kInk = {40, 40, 48};
/// Global tokens.
inline constexpr Color kGlobal = {37, 99, 235};
inline constexpr int kTextSize = 13;
/// Length of the mark of a tick, and what is between it and its text.
inline constexpr int kTick = 6;
inline constexpr int kTickGap = 5;

/// The tokens of a document on an axis. Without labels they have their numbers.
struct TokenNames {
  std::vector<std::string> labels;
  /// Ascending.
  std::vector<std::int64_t> globals;
};

/// Ticks of one axis, none over another.
class Ticks {
 public:
  /// The tokens by their names where each has room for it, and otherwise by some of their numbers.
  static Ticks of_tokens(const Typesetter& typesetter, const Axis& axis, const TokenNames& names);
  /// Round numbers, where the first place has the number `first`.
  static Ticks of_numbers(const Typesetter& typesetter, const Axis& axis, std::int64_t first);

  /// Pixels that they take outside of a panel.
  int width() const;
  int height() const;
  void draw_left(Picture& picture, Point corner) const;
  void draw_above(Picture& picture, Point corner) const;

 private:
  struct Tick {
    int at;
    TextLine text;
    Color color;
  };

  std::vector<Tick> ticks_;
  /// Names of all tokens, which stand upright above a panel.
  bool names_ = false;
};

}  // namespace longformer::cli
