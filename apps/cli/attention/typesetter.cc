#include "attention/typesetter.h"

#include <cairo-ft.h>
#include <fontconfig/fontconfig.h>
#include <hb-ft.h>
#include <hb.h>

#include <algorithm>
#include <span>

#include "longformer/error.h"

namespace longformer::cli {

namespace {

using Pattern = std::unique_ptr<FcPattern, Release<FcPatternDestroy>>;
using Characters = std::unique_ptr<FcCharSet, Release<FcCharSetDestroy>>;
using ScaledFont = std::unique_ptr<cairo_scaled_font_t, Release<cairo_scaled_font_destroy>>;
using FontOptions = std::unique_ptr<cairo_font_options_t, Release<cairo_font_options_destroy>>;
using LockedFont = std::unique_ptr<cairo_scaled_font_t, Release<cairo_ft_scaled_font_unlock_face>>;
using ShapingFont = std::unique_ptr<hb_font_t, Release<hb_font_destroy>>;
using Buffer = std::unique_ptr<hb_buffer_t, Release<hb_buffer_destroy>>;

/// FreeType's unit of lengths, as a part of a pixel.
constexpr double kFreeTypeUnit = 1.0 / 64;
/// No label has room for more bytes.
constexpr std::size_t kMostBytes = 256;

/// The sans-serif font that has most of the characters.
std::shared_ptr<cairo_font_face_t> best_font(const FcCharSet* characters) {
  const Pattern wanted(FcPatternCreate());
  FcPatternAddString(wanted.get(), FC_FAMILY, reinterpret_cast<const FcChar8*>("sans-serif"));
  FcPatternAddBool(wanted.get(), FC_SCALABLE, FcTrue);
  FcPatternAddBool(wanted.get(), FC_COLOR, FcFalse);
  if (characters != nullptr) FcPatternAddCharSet(wanted.get(), FC_CHARSET, characters);
  FcConfigSubstitute(nullptr, wanted.get(), FcMatchPattern);
  FcDefaultSubstitute(wanted.get());
  FcResult result = FcResultMatch;
  const Pattern found(FcFontMatch(nullptr, wanted.get(), &result));
  FcChar8* file = nullptr;
  if (!found || FcPatternGetString(found.get(), FC_FILE, 0, &file) != FcResultMatch) {
    throw Error(
        "a picture's labels: expected an installed font, found none (Debian: fonts-dejavu-core)");
  }
  return {cairo_ft_font_face_create_for_pattern(found.get()), cairo_font_face_destroy};
}

Buffer buffer_of(std::string_view text) {
  Buffer buffer(hb_buffer_create());
  const auto length = static_cast<int>(text.size());
  hb_buffer_add_utf8(buffer.get(), text.data(), length, 0, length);
  hb_buffer_guess_segment_properties(buffer.get());
  return buffer;
}

/// Characters before shaping, glyphs after it.
std::span<const hb_glyph_info_t> infos_of(const Buffer& buffer) {
  unsigned count = 0;
  const hb_glyph_info_t* infos = hb_buffer_get_glyph_infos(buffer.get(), &count);
  return {infos, count};
}

void shape(const Buffer& buffer, const std::shared_ptr<cairo_font_face_t>& face, int size) {
  cairo_matrix_t matrix, identity;
  cairo_matrix_init_scale(&matrix, size, size);
  cairo_matrix_init_identity(&identity);
  const FontOptions options(cairo_font_options_create());
  const ScaledFont font(cairo_scaled_font_create(face.get(), &matrix, &identity, options.get()));
  const FT_Face locked = cairo_ft_scaled_font_lock_face(font.get());
  if (locked == nullptr) throw Error("a picture's labels: expected a readable font, found another");
  const LockedFont unlock(font.get());
  const ShapingFont shaping(hb_ft_font_create_referenced(locked));
  hb_ft_font_set_load_flags(shaping.get(), FT_LOAD_NO_HINTING);
  hb_shape(shaping.get(), buffer.get(), nullptr, 0);
}

TextLine line_in(const std::shared_ptr<cairo_font_face_t>& face, std::string_view text, int size) {
  const Buffer buffer = buffer_of(text);
  shape(buffer, face, size);
  const hb_glyph_position_t* place = hb_buffer_get_glyph_positions(buffer.get(), nullptr);
  TextLine line{.font = face, .size = size, .glyphs = {}};
  for (const hb_glyph_info_t& info : infos_of(buffer)) {
    line.glyphs.push_back({info.codepoint, line.width + place->x_offset * kFreeTypeUnit,
                           -place->y_offset * kFreeTypeUnit});
    line.width += place->x_advance * kFreeTypeUnit;
    ++place;
  }
  return line;
}

/// Characters that the font of a line lacks: glyph 0 stands for each.
std::ptrdiff_t lacking(const TextLine& line) {
  return std::count_if(line.glyphs.begin(), line.glyphs.end(),
                       [](const cairo_glyph_t& glyph) { return glyph.index == 0; });
}

void remove_last_character(std::string& text) {
  while (text.size() > 1 && (static_cast<unsigned char>(text.back()) & 0xC0u) == 0x80) {
    text.pop_back();
  }
  text.pop_back();
}

}  // namespace

Typesetter::Typesetter() : sans_serif_(best_font(nullptr)) {}

TextLine Typesetter::line(std::string_view text, int size) const {
  TextLine line = line_in(sans_serif_, text, size);
  if (lacking(line) == 0) return line;
  const Characters characters(FcCharSetCreate());
  const Buffer buffer = buffer_of(text);
  for (const hb_glyph_info_t& info : infos_of(buffer)) {
    FcCharSetAddChar(characters.get(), info.codepoint);
  }
  TextLine other = line_in(best_font(characters.get()), text, size);
  return lacking(other) < lacking(line) ? other : line;
}

TextLine Typesetter::line_within(std::string text, int size, double width) const {
  TextLine fitting;
  if (text.size() <= kMostBytes) fitting = line(text, size);
  if (text.size() <= kMostBytes && fitting.width <= width) return fitting;
  text.resize(std::min(text.size(), kMostBytes));
  do {
    remove_last_character(text);
    fitting = line(text + "…", size);
  } while (!text.empty() && fitting.width > width);
  return fitting;
}

}  // namespace longformer::cli
