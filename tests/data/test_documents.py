"""Folders of documents: which text .html, .docx and .pdf files give, what is left out, and what is refused in time."""

import io
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from transformula.data.corpus import read_corpus
from transformula.data.prepare import prepare
from transformula.data.records import read_records
from transformula.data.settings import DataSettings
from transformula.data.stream.streamed import read_stream
from transformula.errors import DataError

needs_lxml = pytest.mark.skipif(find_spec("lxml") is None, reason="needs lxml")

PAGE = """<!doctype html><html><head><title>T</title><script>var a = "</p>";</script><style>p {}</style></head>
<body onload="x()"><h1>A &amp; <b>b</b></h1><p>One   line,
and more.<br>Another<script>alert(1)</script>.</p><ul><li>a<li>ü &#8364;</ul>
<table><tr><td>1</td><td>2</td></tr></table><pre>def f():
    return 1</pre><noscript>no</noscript><template>no</template><!-- no --></body></html>"""
WORDS = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def text(path: Path) -> str:
    (document,) = read_corpus(str(path)).documents
    return str(document)


@needs_lxml
def test_a_page_is_what_a_reader_sees(tmp_path):
    (tmp_path / "a.html").write_text(PAGE)
    lines = ["A & b", "One line, and more.", "Another.", "a", "ü €", "1", "2", "def f():", "    return 1"]
    assert text(tmp_path / "a.html").splitlines() == lines
    (tmp_path / "b.htm").write_bytes("<p>caf\xe9".encode("latin-1"))
    with pytest.raises(DataError, match="b.htm:1: is not UTF-8: byte 6 .* encoding=latin-1"):
        text(tmp_path / "b.htm")
    assert read_corpus(tmp_path / "b.htm", encoding="latin-1").documents == ["café\n"]
    assert read_corpus(tmp_path / "a.html", file_format="txt").documents == [PAGE]  # as it is, where that is meant


@needs_lxml
@pytest.mark.parametrize("piece", ["<!--", "<a ", "<", "</", "<?", "<![CDATA[", "<div>", "<table>", "<b>", "&#"])
def test_a_hostile_page_is_read_in_linear_time(tmp_path, piece):
    (tmp_path / "a.html").write_text("<p>before</p>" + piece * 100_000)
    assert text(tmp_path / "a.html").startswith("before\n")


def docx(path: Path, body: str, head: str = "") -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        document = f'{head}<w:document xmlns:w="{WORDS}"><w:body>{body}</w:body></w:document>'
        file.writestr("word/document.xml", document)
    return path


def paragraph(text: str) -> str:
    return f'<w:p><w:r><w:t xml:space="preserve">{text}</w:t></w:r></w:p>'


def test_paragraphs_of_a_word_processor(tmp_path):
    pytest.importorskip("defusedxml")
    body = paragraph("Ein Satz, ") + "<w:p><w:r><w:t>one</w:t><w:tab/><w:t>two</w:t><w:br/><w:t>three</w:t></w:r>"
    body += "<w:r><w:delText>struck out</w:delText><w:instrText>PAGE</w:instrText></w:r></w:p><w:p/>"
    body += f"<w:tbl><w:tr><w:tc>{paragraph('cell &lt; 1')}</w:tc><w:tc>{paragraph('2')}</w:tc></w:tr></w:tbl>"
    choice = f"<w:Choice>{paragraph('box')}</w:Choice><w:Fallback>{paragraph('box')}</w:Fallback>"
    path = docx(tmp_path / "a.docx", body + choice)
    assert text(path) == "Ein Satz, \none\ttwo\nthree\ncell < 1\n2\nbox\n"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("bomb", "unpacks to .* bytes, more than 200 times its size"),
        ("entities", r"is not a whole .docx file \(EntitiesForbidden"),
        ("cut", "is not a whole .docx file"),
        ("other", "is not a whole .docx file .*document.xml"),
        ("no zip", "is not a whole .docx file .* has a password"),
    ],
)
def test_a_hostile_docx(tmp_path, name, said):
    pytest.importorskip("defusedxml")
    path = tmp_path / "a.docx"
    if name == "bomb":
        docx(path, " " * 120_000_000)
    elif name == "entities":
        docx(path, paragraph("&b;"), '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>')
    elif name == "cut":
        docx(path, "<w:p>")
    elif name == "other":
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("../../evil.txt", "x")
    else:
        path.write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600)
    with pytest.raises(DataError, match=f"a.docx: {said}"):
        text(path)
    assert [each.name for each in tmp_path.iterdir()] == ["a.docx"]


def pdf(path: Path, *pages: str) -> Path:
    """A file with a line of text on each page; none on one of ""."""
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(pages)))
    objects = ["<</Type/Catalog/Pages 2 0 R>>", f"<</Type/Pages/Count {len(pages)}/Kids[{kids}]>>"]
    objects += ["<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>"]
    for number, line in enumerate(pages):
        content = f"BT /F 12 Tf 72 720 Td ({line}) Tj ET" if line else ""
        page = "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F 3 0 R>>>>"
        objects += [f"{page}/Contents {5 + 2 * number} 0 R>>"]
        objects += [f"<</Length {len(content)}>>\nstream\n{content}\nendstream"]
    out, places = io.BytesIO(), []
    out.write(b"%PDF-1.4\n")
    for number, each in enumerate(objects, 1):
        places.append(out.tell())
        out.write(f"{number} 0 obj\n{each}\nendobj\n".encode("cp1252"))
    start = out.tell()
    out.write(f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode())
    out.write("".join(f"{place:010} 00000 n \n" for place in places).encode())
    out.write(f"trailer\n<</Size {len(objects) + 1}/Root 1 0 R>>\nstartxref\n{start}\n%%EOF\n".encode())
    path.write_bytes(out.getvalue())
    return path


def test_pages_of_a_pdf(tmp_path, monkeypatch):
    pypdf = pytest.importorskip("pypdf")
    path = pdf(tmp_path / "a.pdf", "One page.", "", "Café.")
    corpus = read_corpus(str(path))
    assert corpus.documents == ["One page.\n\nCafé."] and corpus.notes == (f"{path}: 1 of its pages have no text",)
    scanned = pdf(tmp_path / "scan.pdf", "", "")
    with pytest.raises(DataError, match="holds no text: .* none of its 2 pages has text: they may be scanned"):
        read_corpus(str(scanned))
    corpus = read_corpus([str(path), str(scanned)])
    assert corpus.left_out == 1 and f"{scanned}: none of its 2 pages has text" in corpus.notes[1]
    monkeypatch.setattr("transformula.data.formats.pdf.MAX_PAGES", 2)
    with pytest.raises(DataError, match="a.pdf: has more than 2 pages"):
        read_corpus(str(path))
    writer = pypdf.PdfWriter(clone_from=str(scanned))
    writer.encrypt("secret", algorithm="RC4-128")
    writer.write(tmp_path / "locked.pdf")
    with pytest.raises(DataError, match="locked.pdf: has a password; save it without one"):
        read_corpus(str(tmp_path / "locked.pdf"))
    for content in (b"", b"%PDF-1.4\n", b"text", path.read_bytes()[:200]):
        (tmp_path / "cut.pdf").write_bytes(content)
        with pytest.raises(DataError, match="cut.pdf: is not a whole .pdf file|cut.pdf.*holds no text"):
            read_corpus(str(tmp_path / "cut.pdf"))


def test_what_a_folder_leaves_out_is_counted(tmp_path):
    (tmp_path / "in").mkdir()
    for number in range(30):
        (tmp_path / "in" / f"{number}.md").write_text(f"The text of number {number}.\n" * 20)
    for name in ("a.png", "b.png", "c.exe", "README", ".hidden.png"):
        (tmp_path / "in" / name).write_bytes(b"\0")
    note = f"{tmp_path}: left out, of no known format: 2 .png, 1 .exe, 1 without an ending"
    assert sorted(read_corpus(str(tmp_path)).notes[0].partition("format: ")[2].split(", ")) == sorted(
        note.partition("format: ")[2].split(", ")
    )
    data = prepare(DataSettings.read({"data": str(tmp_path), "tokenizer": "bytes"}))
    assert f"note        {tmp_path}: left out, of no known format: 2 .png" in repr(data.preview())
    assert "notes" not in data.describe()  # what a resumed run compares
    stream = read_stream(DataSettings.read({"data": str(tmp_path), "tokenizer": "bytes", "stream": True}))
    assert f"{tmp_path}: left out, of no known format: 2 .png" in repr(stream.preview())


@needs_lxml
def test_a_folder_of_documents_of_every_kind(tmp_path):
    for package in ("pypdf", "defusedxml"):
        pytest.importorskip(package)
    (tmp_path / "a.md").write_text("# Markdown\n")
    (tmp_path / "b.html").write_text("<p>page")
    docx(tmp_path / "c.docx", paragraph("word"))
    pdf(tmp_path / "d.pdf", "print")
    corpus = read_corpus(str(tmp_path))
    assert corpus.documents == ["# Markdown\n", "page\n", "word\n", "print"] and corpus.notes == ()
    for name in ("pos", "neg"):
        (tmp_path / "classes" / name).mkdir(parents=True)
        (tmp_path / "classes" / name / "a.html").write_text(f"<p>{name}")
        (tmp_path / "classes" / name / "b").write_text("<p>as it is")
    rows = [dict(row) for row in read_records(str(tmp_path / "classes"))]
    assert rows[0] == {"text": "neg\n", "label": "neg"} and rows[1]["text"] == "<p>as it is"
