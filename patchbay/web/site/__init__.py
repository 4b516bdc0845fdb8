"""What all pages of one hub share: its parts, the frame and navigation, plain values of servers, HTML or JSON."""
