#include "engine/run/finite_results.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/finite.h"

namespace longformer {

std::string why_not_finite(std::span<const float> values, const char* what) {
  if (all_finite(values)) return "";
  const bool any_nan =
      std::any_of(values.begin(), values.end(), [](float value) { return std::isnan(value); });
  return fmt::format("expected finite {} from the model, found {}", what,
                     any_nan ? "NaN" : "infinite ones");
}

void require_finite(std::span<const float> values, const char* what, const std::string& document) {
  const std::string reason = why_not_finite(values, what);
  require(reason.empty(), "{}{}{}", document, document.empty() ? "" : ": ", reason);
}

}  // namespace longformer
