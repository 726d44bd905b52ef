#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "documents/document_fault.h"
#include "documents/placed_text.h"
#include "documents/readers.h"
#include "documents/xml.h"
#include "formats/json.h"

namespace longformer::documents {
namespace {

constexpr const char* kContainer = "META-INF/container.xml";
constexpr const char* kEncryption = "META-INF/encryption.xml";

/// These hide fonts, not text.
bool is_for_fonts(std::string_view algorithm) {
  return algorithm == "http://www.idpf.org/2008/embedding" ||
         algorithm == "http://ns.adobe.com/pdf/enc#RC";
}

/// Names of the parts that the rights of a shop lock.
std::set<std::string> locked_parts(DocumentArchive& archive) {
  std::set<std::string> parts;
  if (!archive.has(kEncryption)) return parts;
  const pugi::xml_document document = xml_of(archive.part(kEncryption, Limits::xml), kEncryption);
  for (const pugi::xml_node& one : document.document_element().children()) {
    const pugi::xml_node reference = child_of(child_of(one, "CipherData"), "CipherReference");
    if (reference && !is_for_fonts(value_of(child_of(one, "EncryptionMethod"), "Algorithm"))) {
      parts.insert(referred_part("", value_of(reference, "URI")));
    }
  }
  return parts;
}

/// The name of the part that lists all others.
std::string package_of(DocumentArchive& archive) {
  const pugi::xml_document document = xml_of(archive.part(kContainer, Limits::xml), kContainer);
  for (const pugi::xml_node& root : child_of(document.document_element(), "rootfiles").children()) {
    if (local_name(root) == "rootfile") return referred_part("", value_of(root, "full-path"));
  }
  fail_with(FileFault::damaged, "expected a list of parts in the EPUB book, found none");
}

bool has_word(std::string_view list, std::string_view word) {
  return (" " + std::string(list) + " ").find(" " + std::string(word) + " ") != std::string::npos;
}

/// Some books name no type of their pages, or one of before EPUB.
bool is_page(std::string_view type, std::string_view file) {
  if (type == "application/xhtml+xml" || type == "text/html") return true;
  return std::ranges::any_of(std::array{".xhtml", ".html", ".htm"}, [&](std::string_view ending) {
    return file.size() > ending.size() && file.ends_with(ending);
  });
}

/// Pages in the order of reading: what stands outside of it comes last.
std::vector<std::string> pages_in_order(const pugi::xml_node& package, const std::string& name) {
  std::map<std::string, pugi::xml_node, std::less<>> items;
  for (const pugi::xml_node& item : child_of(package, "manifest").children()) {
    items.emplace(value_of(item, "id"), item);
  }
  std::vector<std::string> pages, last;
  for (const pugi::xml_node& reference : child_of(package, "spine").children()) {
    const auto found = items.find(value_of(reference, "idref"));
    if (found == items.end()) continue;
    std::string file = referred_part(name, value_of(found->second, "href"));
    if (!is_page(value_of(found->second, "media-type"), file)) continue;
    if (has_word(value_of(found->second, "properties"), "nav")) continue;
    auto& list = value_of(reference, "linear") == "no" ? last : pages;
    list.push_back(std::move(file));
  }
  pages.insert(pages.end(), last.begin(), last.end());
  return pages;
}

/// Pages are XML, whether they say so or not.
std::string page_text(std::string bytes, const std::string& name) {
  constexpr std::string_view kUtf8Mark = "\xef\xbb\xbf";
  if (bytes.starts_with(kUtf8Mark)) bytes.erase(0, kUtf8Mark.size());
  if (bytes.find("<?xml") == std::string::npos && bytes.find('\0') == std::string::npos) {
    bytes.insert(0, "<?xml version=\"1.0\"?>");
  }
  try {
    return document_text(bytes, DocumentFormat::html, {}, name);
  } catch (const Error& error) {
    fail_with(FileFault::damaged, "part {}: {}", formats::quote(name), error.reason());
  }
}

}  // namespace

bool is_epub_book(DocumentSource& source) {
  return source.archive && source.archive->has(kContainer);
}

DocumentContents epub_book(DocumentSource& source) {
  DocumentArchive& archive = *source.archive;
  const std::set<std::string> locked = locked_parts(archive);
  const std::string name = package_of(archive);
  require_or(FileFault::locked, !locked.contains(name),
             "expected an EPUB book, found one that the rights of a shop (DRM) lock");
  const pugi::xml_document package = xml_of(archive.part(name, Limits::xml), name);
  PlacedText text("chapter");
  for (const std::string& page : pages_in_order(package.document_element(), name)) {
    require_or(FileFault::locked, !locked.contains(page),
               "expected an EPUB book, found one that the rights of a shop (DRM) lock");
    text.separate(2);
    text.begin_place();
    text.add(page_text(archive.part(page, Limits::xml), page));
    text.end_paragraph();
  }
  return text.take();
}

}  // namespace longformer::documents
