"""PDF files for tests."""

from __future__ import annotations

import io

import pypdf
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject


def make_pdf(pages: list[list[str]], *, title: str = "", password: str = "") -> bytes:
    writer = pypdf.PdfWriter()
    for lines in pages:
        page = writer.add_blank_page(400, 400)
        font = DictionaryObject(
            {
                NameObject("/Type"): NameObject("/Font"),
                NameObject("/Subtype"): NameObject("/Type1"),
                NameObject("/BaseFont"): NameObject("/Helvetica"),
            }
        )
        page[NameObject("/Resources")] = DictionaryObject(
            {NameObject("/Font"): DictionaryObject({NameObject("/F1"): font})}
        )
        content = DecodedStreamObject()
        shown = " T* ".join(f"({line}) Tj" for line in lines)
        content.set_data(f"BT /F1 12 Tf 14 TL 20 380 Td {shown} ET".encode())
        page[NameObject("/Contents")] = content
    if title:
        writer.add_metadata({"/Title": title})
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    data = io.BytesIO()
    writer.write(data)
    return data.getvalue()
